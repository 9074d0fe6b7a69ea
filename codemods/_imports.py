"""What a file imports, after all rules have had their say.

Several rules may want something from one import statement: ``from torch.cuda.amp import autocast, GradScaler``
has one name that moves and one that goes. So there are two phases:

1. in the walk (``on_<Node>``) a rule says, for each *use* that its fix rewrites, what the use will mean:
   ``imports.want(node, "torch.amp.autocast")``, or ``None`` when the use disappears;
2. in ``on_module`` it builds its edits, with :meth:`Imports.spell` for how to write the new name and
   :meth:`Imports.edits` and :meth:`Imports.group` for what has to change at the top of the file.

A binding moves (or goes) only when every use of it was asked for and all agree; else it stays as it
is and the new names are spelled through ``torch``. Only safe fixes may ask. The fixes that depend on one
import statement share a group, so that they stand or fall together.

    imports = _imports.of(module)
    imports.want(call.func, "torch.amp.autocast")                  # phase 1
    text, edits = imports.spell(call.func, "torch.amp.autocast")   # phase 2
    group = imports.group(call.func, group=own_group)
    name, edits = imports.add("habana_frameworks.torch.core", "htcore")     # any time: an import to add
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from hpushim.model import Edit

from ._dual import dual
from ._import_text import Plan, rewrite

if TYPE_CHECKING:
    from hpushim.engine.scope import Binding
    from hpushim.engine.syntax import Module

CORE = "habana_frameworks.torch.core"
CORE_ALIAS = "htcore"


def of(module: Module) -> Imports:
    """The one plan for the imports of ``module``, shared by all rules."""
    plan = module.notes.get("imports")
    if not isinstance(plan, Imports):
        plan = module.notes["imports"] = Imports(module)
    return plan


def root(node: ast.AST) -> ast.Name | None:
    """The name that a dotted expression starts with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _tail(node: ast.AST) -> list[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return parts[::-1]


class Imports:
    """The wishes of all rules for one file's imports, and what comes of them."""

    def __init__(self, module: Module) -> None:
        self._module = module
        #: For each use of an imported name: what the *binding* would have to mean, None to let go.
        self._wanted: dict[ast.Name, str | None] = {}
        self._groups: dict[str, str] = {}
        self._statements: dict[ast.alias, Plan] = {}
        self._settled = False
        self._line: tuple[int, bool] | None = None

    # -- phase 1 ----------------------------------------------------------------------------

    def want(self, node: ast.expr, new: str | None, group: str = "") -> None:
        """Says that the use ``node`` (a name or a dotted expression) will mean ``new``, or nothing.

        ``group`` is the group of the fix that rewrites it, when it has one.
        """
        name = root(node)
        if name is None:
            return
        target = self._binding_target(node, name, new)
        if name not in self._wanted or target is not None:
            self._wanted[name] = target
        for alias in self._aliases(name):
            if group:
                self._union(group, self._key(alias))

    def _binding_target(self, node: ast.expr, name: ast.Name, new: str | None) -> str | None:
        """What the binding behind ``node`` must mean for the same attributes to lead to ``new``."""
        if new is None:
            return None
        tail = _tail(node)
        bound = {b.qualified for b in self._module.bindings(name)}
        if bound == {"torch.cuda"} and new.startswith("torch.hpu."):
            return "torch.hpu"  # the module itself: what is read from it may lie deeper
        parts = new.split(".")
        if tail and parts[-len(tail) :] != tail:
            return None
        base = ".".join(parts[: len(parts) - len(tail)])
        return base if "." in base else None

    # -- phase 2 ----------------------------------------------------------------------------

    def spell(self, node: ast.expr, new: str) -> tuple[str, tuple[Edit, ...]]:
        """How ``new`` is written in the place of ``node``, and the import edits that this needs."""
        self._settle()
        name = root(node)
        needed = self.edits(node)
        for alias in self._aliases(name) if name is not None else ():
            plan = self._statements.get(alias)
            local, target = (plan.local.get(alias), plan.targets.get(alias)) if plan else ("", "")
            if local and target and (new == target or new.startswith(f"{target}.")):
                return local + new[len(target) :], needed
        for binding in self._module.bindings(name) if name is not None else ():
            if binding.qualified and new.startswith(f"{binding.qualified}."):
                assert name is not None
                return name.id + new[len(binding.qualified) :], needed
        text, more = self.through(node, new)
        return text, (*needed, *more)

    def edits(self, *nodes: ast.expr) -> tuple[Edit, ...]:
        """The edits of import statements that a fix of these uses depends on."""
        self._settle()
        found: list[Edit] = []
        for node in nodes:
            name = root(node)
            for alias in self._aliases(name) if name is not None else ():
                if alias in self._statements:
                    found += [
                        e for e in rewrite(self._module, self._statements[alias]) if e not in found
                    ]
        return tuple(found)

    def through(self, node: ast.AST, new: str) -> tuple[str, tuple[Edit, ...]]:
        """How ``new`` is written at ``node`` through its top package, and the edit that imports that if needed."""
        text = self._dotted(node, new)
        if text is not None:
            return text, ()
        return new, self.add(new.partition(".")[0])[1]

    def group(self, *nodes: ast.expr, group: str = "") -> str:
        """The group that a fix of these uses belongs to; "" when it depends on no import."""
        self._settle()
        for node in nodes:
            name = root(node)
            for alias in self._aliases(name) if name is not None else ():
                if alias in self._statements:
                    return self._find(self._key(alias))
        return self._find(group) if group else ""

    def add(self, dotted: str, alias: str = "") -> tuple[str, tuple[Edit, ...]]:
        """The name under which the file has the module ``dotted``, and the edit that imports it if needed."""
        bound = self._existing(dotted)
        if bound is not None:
            return bound, ()
        local = alias or dotted
        if alias and self._taken(alias, dotted):
            local = alias = f"{alias}_"
        line = f"import {dotted} as {alias}" if alias else f"import {dotted}"
        at, lead = self._place()
        newline = self._module.newline
        if dual(self._module) and dotted == CORE:
            line = newline.join(
                ("try:", f"    {line}", "except ImportError:  # no Gaudi here",
                 "    from types import SimpleNamespace", "",
                 f"    {local} = SimpleNamespace(mark_step=lambda: None)")
            )  # fmt: skip
        text = f"{newline}{line}" if lead else f"{line}{newline}"
        return local, (self._module.insert(at, text),)

    # -- what is there ----------------------------------------------------------------------

    def _aliases(self, name: ast.Name) -> list[ast.alias]:
        return [b.node for b in self._module.bindings(name) if isinstance(b.node, ast.alias)]

    def _dotted(self, node: ast.AST, new: str) -> str | None:
        """``new`` through whatever name the file has for its top package; None when it has none."""
        package, _, rest = new.partition(".")
        scope = self._module.scope(node)
        for name, bindings in self._module.global_scope.bindings.items():
            if any(b.qualified == package for b in bindings) and scope.lookup(name) is bindings:
                return f"{name}.{rest}"
        local = scope.lookup(package)
        return new if any(b.qualified == package for b in local) else None

    def _existing(self, dotted: str) -> str | None:
        for name, bindings in self._module.global_scope.bindings.items():
            for binding in bindings:
                if binding.kind != "import":
                    continue
                if binding.qualified == dotted:
                    return name
                node = binding.node
                plain = isinstance(node, ast.alias) and node.name == dotted and not node.asname
                if plain and isinstance(self._module.parent(node), ast.Import):
                    return dotted
        return None

    def _taken(self, name: str, dotted: str = "") -> bool:
        """Whether the file gives ``name`` another meaning than ``dotted`` anywhere."""
        return any(
            not isinstance(binding.node, ast.alias) or not dotted.endswith(binding.node.name)
            for binding in self._module.bindings_of(name)
        )

    def place(self) -> tuple[int, bool]:
        """Where a line behind the imports goes; the second value says that the file ends there."""
        return self._place()

    def _place(self) -> tuple[int, bool]:
        if self._line is None:
            self._line = self._new_line()
        return self._line

    def _new_line(self) -> tuple[int, bool]:
        """Where an import goes: behind the run of imports that has torch, at the start of a line.

        The second value says that the file ends without a newline there.
        """
        module = self._module
        anchor: ast.stmt | None = None
        body = module.tree.body
        header = [s for s in body if _is_import(s)]
        with_torch = [s for s in header if _imports_torch(s)]
        if with_torch:
            anchor = with_torch[0]
            for earlier, later in itertools.pairwise(body):
                if earlier is anchor and _is_import(later):
                    anchor = later
            while not _imports_torch(anchor):
                anchor = body[body.index(anchor) - 1]
        elif header:
            anchor = header[0]
            for earlier, later in itertools.pairwise(body):
                if earlier is anchor and _is_import(later):
                    anchor = later
        elif body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            anchor = body[0]
        if anchor is None:
            first = body[0] if body else None
            return (module.line_span(first.lineno).start if first else len(module.data)), False
        line = anchor.end_lineno or anchor.lineno
        end = module.line_span(line)
        # `import a; b()`: the run ends inside a line; what follows on it stays before ours.
        return end.end, not module.source(end).endswith(("\n", "\r"))

    # -- deciding ---------------------------------------------------------------------------

    def _settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        module = self._module
        bindings: dict[ast.alias, Binding] = {}
        for name in self._wanted:
            for binding in module.bindings(name):
                if isinstance(binding.node, ast.alias):
                    bindings[binding.node] = binding
        uses = self._uses({binding.name for binding in bindings.values()})
        for alias, binding in bindings.items():
            self._decide(alias, binding, uses.get(alias, []))

    def _uses(self, names: set[str]) -> dict[ast.alias, list[ast.Name]]:
        """Every use of each import of one of these names."""
        found: dict[ast.alias, list[ast.Name]] = {}
        for node in self._module.of_type(ast.Name):
            if node.id in names and isinstance(node.ctx, ast.Load):
                for alias in self._aliases(node):
                    found.setdefault(alias, []).append(node)
        return found

    def _decide(self, alias: ast.alias, binding: Binding, uses: list[ast.Name]) -> None:
        statement = self._module.parent(alias)
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return
        targets = {self._wanted.get(use, binding.qualified) for use in uses}
        kept = any(use not in self._wanted for use in uses)
        if kept or binding.qualified in (None, *targets) or self._exported(binding.name):
            return
        if isinstance(statement, ast.Import) and alias.asname is None:
            return  # `import torch.cuda.amp` binds torch: nothing to move
        wanted = {target for target in targets if target is not None}
        if len(wanted) > 1:
            return
        new = wanted.pop() if wanted else None
        plan = self._statements.get(alias) or next(
            (p for p in self._statements.values() if p.statement is statement), Plan(statement)
        )
        plan.targets[alias] = new
        self._statements[alias] = plan
        if new is not None:
            last = new.rpartition(".")[2]
            keep = alias.asname or last == binding.name or self._taken(last)
            plan.local[alias] = binding.name if keep else last
        self._union(self._key(alias), self._key(alias))

    def _exported(self, name: str) -> bool:
        """Whether other files may import the name from this one."""
        module = self._module
        if module.path.replace("\\", "/").endswith("__init__.py"):
            return True
        exported = module.global_scope.bindings.get("__all__", ())
        return any(
            isinstance(part, ast.Constant) and part.value == name
            for binding in exported
            if binding.value is not None
            for part in ast.walk(binding.value)
        )

    # -- groups -----------------------------------------------------------------------------

    def _key(self, alias: ast.alias) -> str:
        statement = self._module.parent(alias)
        return f"import:{getattr(statement, 'lineno', 0)}"

    def _find(self, key: str) -> str:
        while self._groups.get(key, key) != key:
            key = self._groups[key]
        return key

    def _union(self, first: str, second: str) -> None:
        self._groups[self._find(first)] = self._find(second)


def _is_import(statement: ast.stmt) -> bool:
    """An import, or a ``try``/``if`` that holds nothing but imports and flags."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, (ast.Try, ast.If)):
        return isinstance(statement.body[0], (ast.Import, ast.ImportFrom))
    return False


def _imports_torch(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name.partition(".")[0] == "torch" for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "torch"
    return False
