"""What a file's imports become, decided when all changes that are to be made are known.

An imported name moves, or goes, when every use of it does; otherwise it stays, and new names are written through the
package. ``from torch.cuda.amp import autocast, GradScaler`` may so lose one name and keep the other under another module.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from hpushim.engine.python.changes import (
    Change,
    Define,
    Function,
    Guard,
    Import,
    Insert,
    Remove,
    Rename,
    Replace,
)
from hpushim.engine.python.exports import exported, in_annotations
from hpushim.pycode.places import TRIES
from hpushim.pycode.walk import walk

if TYPE_CHECKING:
    import libcst as cst

    from hpushim.engine.python.module import Module
    from hpushim.pycode.scope import Binding

Plain = Replace | Remove | Insert | Guard
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: In front of the key of what is defined, beside those of what is imported.
_DEFINED = "="


def resolved(module: Module, changes: Sequence[Change]) -> list[Plain]:
    """The changes with every :class:`Rename`, :class:`Import` and :class:`Define` turned into what is written."""
    return _Plan(module).resolved(changes)


def local_name(module: Module, dotted: str, alias: str = "") -> str:
    """The name under which the file has the module ``dotted``, or will have it when it is imported as ``alias``."""
    bound = _existing(module, dotted)
    if bound is not None:
        return bound
    if alias and _taken(module, alias, dotted):
        return f"{alias}_"
    return alias or dotted


def through(module: Module, node: ast.AST, dotted: str) -> tuple[str, tuple[Import, ...]]:
    """How ``dotted`` is written at ``node`` through its top package, and the import that this needs."""
    package, _, rest = dotted.partition(".")
    first = root(node)
    there = (Import(package, there=True),)
    if first is not None and module.qualified(first) == package:
        return f"{first.id}.{rest}", there
    scope = module.scope(node)
    for name, bindings in module.global_scope.bindings.items():
        if any(b.qualified == package for b in bindings) and scope.lookup(name) is bindings:
            return f"{name}.{rest}", there
    if any(b.qualified == package for b in scope.lookup(package)):
        return dotted, there
    for name, bindings in module.global_scope.bindings.items():
        taken = [b for b in bindings if b.kind == "import" and b.qualified == dotted]
        if len(taken) == len(bindings) == 1 and scope.lookup(name) is bindings and _is_above(taken[0].node, node):  # fmt: skip
            return name, ()
    return dotted, (Import(package),)


def _is_above(statement: ast.AST, node: ast.AST) -> bool:
    return getattr(statement, "lineno", 0) < getattr(node, "lineno", 0)


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


class _Statement:
    """What becomes of one import statement: a dotted name for each alias that moves, None for one that goes."""

    def __init__(self, node: ast.Import | ast.ImportFrom) -> None:
        self.node = node
        self.targets: dict[ast.alias, str | None] = {}
        #: Under which name the file has what moved.
        self.local: dict[ast.alias, str] = {}


class _Plan:
    def __init__(self, module: Module) -> None:
        self._module = module
        #: For each use of an imported name: what the binding would have to mean, None to let go.
        self._wanted: dict[ast.Name, str | None] = {}
        self._statements: dict[ast.AST, _Statement] = {}
        self._added: dict[str, Insert] = {}
        #: What some change wants imported: it does not go with its last use.
        self._needed: set[str] = set()

    def resolved(self, changes: Sequence[Change]) -> list[Plain]:
        inserted = " ".join(change.code for change in changes if isinstance(change, Insert))
        for change in changes:
            self._want(change, inserted)
            if isinstance(change, Import):
                self._needed.add(change.module)
        self._decide()
        found: list[Plain] = []
        for change in changes:
            if isinstance(change, Rename):
                found += self._renamed(change)
            elif isinstance(change, Import):
                self._import(change)
            elif isinstance(change, Define):
                self._define(change)
            else:
                found.append(change)
        for plan in self._statements.values():
            found += self._rewritten(plan)
        # What defines a value may ask the modules that are imported.
        added = sorted(self._added, key=lambda key: key.startswith(_DEFINED))
        early = [
            key for key in added if not self._added[key].after and not key.startswith(_DEFINED)
        ]
        late = [key for key in added if key not in early]
        return [*(self._added[key] for key in early), *found, *(self._added[key] for key in late)]

    # -- what the changes ask of names ------------------------------------------------------

    def _want(self, change: Change, inserted: str) -> None:
        if isinstance(change, Rename):
            name = root(change.node)
            if name is not None:
                self._wanted[name] = self._binding_target(change.node, name, change.name)
        elif isinstance(change, Remove) or (
            isinstance(change, Replace) and isinstance(change.new, str)
        ):
            text = change.new if isinstance(change, Replace) else inserted
            for name in _names(change.node):
                if not re.search(rf"\b{re.escape(name.id)}\b", str(text)):
                    self._wanted.setdefault(name, None)

    def _binding_target(self, node: ast.expr, name: ast.Name, new: str) -> str | None:
        """What the binding behind ``node`` must mean for the same attributes to lead to ``new``."""
        tail = _tail(node)
        parts = new.split(".")
        bound = {b.qualified for b in self._module.bindings(name)}
        whole = next(iter(bound)) if len(bound) == 1 else None
        if whole is not None and new.startswith(f"{whole}."):
            return whole  # the new name is reached through it as well
        base = ".".join(parts[: len(parts) - len(tail)])
        same = not tail or parts[-len(tail) :] == tail
        if whole is not None and tail and not (same and base.count(".") <= whole.count(".")):
            # The module itself moved, and what is read from it lies deeper now.
            return self._sibling(whole, new, tail[-1])
        return base if same and "." in base else None

    def _sibling(self, old: str, new: str, last: str) -> str | None:
        """``torch.hpu`` for a binding of ``torch.cuda`` and a name below ``torch.hpu``."""
        package, _, _ = old.rpartition(".")
        if not package or not new.startswith(f"{package}.") or not new.endswith(f".{last}"):
            return None
        return ".".join(new.split(".")[: old.count(".") + 1])

    # -- deciding ---------------------------------------------------------------------------

    def _aliases(self, name: ast.Name) -> list[Binding]:
        return [b for b in self._module.bindings(name) if isinstance(b.node, ast.alias)]

    def _decide(self) -> None:
        bindings: dict[ast.AST, Binding] = {}
        for name in self._wanted:
            for binding in self._aliases(name):
                bindings[binding.node] = binding
        for alias, binding in bindings.items():
            assert isinstance(alias, ast.alias)
            self._decide_one(alias, binding)

    def _decide_one(self, alias: ast.alias, binding: Binding) -> None:
        module = self._module
        statement = module.parent(alias)
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return
        uses = module.uses(binding)
        targets = {self._wanted.get(use, binding.qualified) for use in uses}
        kept = any(use not in self._wanted for use in uses)
        if kept or binding.qualified in (None, *targets, *self._needed):
            return
        if exported(module, binding.name):
            return
        if isinstance(statement, ast.Import) and alias.asname is None and not (targets == {None} and alias.name in sys.stdlib_module_names):  # fmt: skip
            return  # `import torch.cuda.amp` binds torch: nothing to move
        wanted = {target for target in targets if target is not None}
        if len(wanted) > 1:
            return
        new = wanted.pop() if wanted else None
        # `import torch.cuda as cuda` says no other word than the package does.
        plain = isinstance(statement, ast.Import) and alias.asname == alias.name.rpartition(".")[2]
        given = alias.asname if not plain else None
        stays = new is not None and (given or new.rpartition(".")[2] == binding.name)
        if not stays and in_annotations(module, binding.name):
            return
        plan = self._statements.setdefault(statement, _Statement(statement))
        plan.targets[alias] = new
        if new is not None:
            last = new.rpartition(".")[2]
            keep = given or last == binding.name or _taken(module, last)
            plan.local[alias] = binding.name if keep else last

    # -- writing ----------------------------------------------------------------------------

    def _renamed(self, change: Rename) -> list[Plain]:
        text = self._spelled(change.node, change.name, change.short)
        if text + change.tail == self._module.source(change.node):
            return []
        return [Replace(change.node, text + change.tail)]

    def _spelled(self, node: ast.expr, new: str, short: str) -> str:
        name = root(node)
        for binding in self._aliases(name) if name is not None else ():
            statement = self._module.parent(binding.node)
            plan = self._statements.get(statement) if statement is not None else None
            alias = binding.node
            assert isinstance(alias, ast.alias)
            target = plan.targets.get(alias) if plan is not None else None
            if plan is not None and target and (new == target or new.startswith(f"{target}.")):
                return plan.local[alias] + new[len(target) :]
        for binding in self._module.bindings(name) if name is not None else ():
            if binding.qualified and new.startswith(f"{binding.qualified}."):
                assert name is not None
                return name.id + new[len(binding.qualified) :]
        text, needed = through(self._module, node, short or new)
        for item in needed:
            self._import(item)
        return text

    def _rewritten(self, plan: _Statement) -> Iterator[Plain]:
        node = plan.node
        stay = [alias for alias in node.names if alias not in plan.targets]
        lines = list(_new_lines(plan))
        if not stay and not lines:
            yield Remove(node)
        elif stay:
            yield from (Insert(node, line, after=False) for line in lines)
            yield from (Remove(alias) for alias in node.names if alias in plan.targets)
        elif _same_module(plan):
            yield Replace(node, _other_module(next(iter(plan.targets.values())) or ""))
        else:
            yield from (Insert(node, line, after=False) for line in lines[:-1])
            yield Replace(node, lines[-1])

    # -- what is added ----------------------------------------------------------------------

    def _import(self, change: Import) -> None:
        module = self._module
        if (
            change.there
            or _existing(module, change.module) is not None
            or change.module in self._added
        ):
            return
        local = local_name(module, change.module, change.alias)
        line = f"import {change.module} as {local}" if change.alias else f"import {change.module}"
        code = change.code or line
        first = self._first_from(change.brings) if change.brings else None
        behind = self._behind_imports(code)
        early = first is not None and not _is_before(behind, first, module)
        self._added[change.module] = Insert(first, code, after=False) if early and first else behind

    def _first_from(self, package: str) -> ast.stmt | None:
        """The first statement of the file that imports ``package``, or something from it, when all is written."""
        for statement in self._module.tree.body:
            for node in walk(statement):
                at_once = not isinstance(
                    statement, _DEFINITIONS
                )  # the body of a function runs later
                if at_once and isinstance(node, (ast.Import, ast.ImportFrom)):
                    plan = self._statements.get(node)
                    moved = plan.targets if plan is not None else {}
                    names = [moved.get(alias, _full_name(node, alias)) for alias in node.names]
                    if any(f"{name}.".startswith(f"{package}.") for name in names):
                        return statement
        return None

    def _define(self, change: Define) -> None:
        key = f"{_DEFINED}{change.name}"
        if change.name in self._module.global_scope.bindings or key in self._added:
            return
        if re.match(r"(async )?def ", change.code):
            insert = self._as_function(change)
            for other, above in self._added.items():
                if other.startswith(_DEFINED) and above.anchor is insert.anchor:
                    self._added[other] = msgspec.structs.replace(above, code=above.code.rstrip())
        else:
            insert = self._behind_imports(f"\n{change.code}", last=True)
            if change.user is not None and not _is_before(insert, change.user, self._module):
                insert = self._in_front_of(change.user, change.early or change.code)
        self._added[key] = insert

    def _as_function(self, change: Define) -> Insert:
        """In front of the first function or class below the imports, or right behind these; between two empty lines.

        Imports further down are left there, if those at the top have the package that the file is about.
        """
        body, user = self._module.tree.body, change.user
        head = body[: first_definition(body)]
        if not any(map(self._imports_ambient, head)):
            head = body
        last = max((n for n, statement in enumerate(head) if _is_import(statement)), default=-1)
        needed = body.index(user) if user is not None else len(body)
        code, place = change.code, last + 1
        if needed <= last:
            code = change.early or code
            place = max((n + 1 for n in range(needed) if _is_import(body[n])), default=needed)
        elif body[place:needed]:
            ends = (n for n in range(place, needed) if isinstance(body[n], _DEFINITIONS))
            place = next(ends, place)
        gap = self._gap(body[place]) if place < len(body) else 2
        below = "\n" * (3 - gap) if gap < 2 else ""
        if place == 0:
            return Insert(body[0], f"{code}\n\n", after=False, own_line=True)
        return Insert(body[place - 1], f"\n\n{code}{below}")

    def _gap(self, statement: ast.stmt) -> int:
        """The empty lines between a statement at the top level and the one above it, comments left out."""
        body = self._module.tree.body
        above = body[body.index(statement) - 1] if statement is not body[0] else None
        end = self._module.line_span(above.end_lineno).end if above and above.end_lineno else 0
        lines = self._module.data[end : self._module.start(statement)].split(b"\n")[:-1]
        return next((n for n, line in enumerate(lines) if line.strip()), len(lines))

    def _behind_imports(self, code: str, *, last: bool = False) -> Insert:
        """Behind the run of imports that has the package which the file is about, or the first run.

        Behind its ``last`` line, or behind the last one that imports from that package.
        """
        body = self._module.tree.body
        header = [statement for statement in body if _is_import(statement)]
        about = [statement for statement in header if self._imports_ambient(statement)]
        anchor: ast.stmt | None = None
        if header:
            anchor = (about or header)[0]
            for earlier, later in itertools.pairwise(body):
                if earlier is anchor and _is_import(later):
                    anchor = later
            while about and not last and not self._imports_ambient(anchor):
                anchor = body[body.index(anchor) - 1]
        elif body and _comes_first(body[0]):
            anchor = body[0]
        if anchor is None:
            return Insert(body[0], code, after=False, own_line=True)
        return Insert(anchor, code)

    def _in_front_of(self, user: ast.stmt, code: str) -> Insert:
        """Behind the last import above ``user``, a statement at the top level, or right in front of it."""
        body = self._module.tree.body
        above = [statement for statement in body[: body.index(user)] if _is_import(statement)]
        if above:
            return Insert(above[-1], f"\n{code}")
        return Insert(user, code, after=False, own_line=True)

    def _imports_ambient(self, statement: ast.stmt) -> bool:
        ambient = self._module.names.main
        if isinstance(statement, ast.Import):
            return any(alias.name.partition(".")[0] == ambient for alias in statement.names)
        if isinstance(statement, ast.ImportFrom):
            return (statement.module or "").partition(".")[0] == ambient
        return False


def first_definition(body: Sequence[ast.stmt]) -> int:
    """The place of the first function or class at the top level."""
    return next((n for n, each in enumerate(body) if isinstance(each, _DEFINITIONS)), len(body))


def _comes_first(statement: ast.stmt) -> bool:
    """A text that begins a module, or an import that has to be the first."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_before(insert: Insert, user: ast.stmt, module: Module) -> bool:
    """Is what is put behind the anchor there when ``user``, a statement at the top level, runs?"""
    body = module.tree.body
    place = body.index(insert.anchor) + insert.after
    return place <= body.index(user)


def _full_name(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    return alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"


def _names(node: ast.AST) -> Iterable[ast.Name]:
    return (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _existing(module: Module, dotted: str) -> str | None:
    for name, bindings in module.global_scope.bindings.items():
        for binding in bindings:
            if binding.kind != "import":
                continue
            if binding.qualified == dotted:
                return name
            node = binding.node
            plain = isinstance(node, ast.alias) and node.name == dotted and not node.asname
            if plain and isinstance(module.parent(node), ast.Import):
                return dotted
    return None


def _taken(module: Module, name: str, dotted: str = "") -> bool:
    """Whether the file gives ``name`` another meaning than ``dotted`` anywhere."""
    return any(
        not isinstance(binding.node, ast.alias) or not dotted.endswith(binding.node.name)
        for binding in module.bindings_of(name)
    )


def _is_import(statement: ast.stmt) -> bool:
    """An import, or a ``try``/``if`` that begins with one."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, (*TRIES, ast.If)):
        return isinstance(statement.body[0], (ast.Import, ast.ImportFrom))
    return False


def _new_lines(plan: _Statement) -> Iterator[str]:
    if isinstance(plan.node, ast.Import):
        yield from (f"import {new} as {plan.local[a]}" for a, new in plan.targets.items() if new)
        return
    sources: dict[str, list[str]] = {}
    for alias, new in plan.targets.items():
        if new is not None:
            base, _, last = new.rpartition(".")
            local = plan.local[alias]
            sources.setdefault(base, []).append(last if last == local else f"{last} as {local}")
    yield from (f"from {base} import {', '.join(names)}" for base, names in sources.items())


def _same_module(plan: _Statement) -> bool:
    """Whether all names of a ``from`` import move to one module under their own names."""
    bases = {new.rpartition(".")[0] for new in plan.targets.values() if new}
    return (
        isinstance(plan.node, ast.ImportFrom)
        and len(bases) == 1
        and all(new and new.rpartition(".")[2] == alias.name for alias, new in plan.targets.items())
    )


def _other_module(name: str) -> Function:
    """A change of the module that a ``from`` import reads, and of nothing else."""

    def changed(node: cst.ImportFrom) -> cst.ImportFrom:
        import libcst as cst

        module = cst.parse_expression(name.rpartition(".")[0])
        assert isinstance(module, (cst.Name, cst.Attribute))
        return node.with_changes(module=module)

    return changed
