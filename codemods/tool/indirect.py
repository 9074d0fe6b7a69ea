"""CUDA reached by a string: getattr, import_module, mock.patch, exec."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.names import called, word, words_with
from ..analysis.verdict import known
from ..bases.torch_name import CUDA, respell
from ..edits.spelling import retext, shared

_MODULE = CUDA.rstrip(".")
_ATTRIBUTES = ("builtins.getattr", "builtins.hasattr", "builtins.setattr")
_IMPORTERS = ("importlib.import_module", "builtins.__import__", "importlib.util.find_spec")
_RUNNERS = ("builtins.exec", "builtins.eval")
_READERS = (*_ATTRIBUTES, *_IMPORTERS, *_RUNNERS)
_PATCHERS = ("patch", "setattr", "delattr", "object")
_IN_TEXT = "a string contains CUDA code, which is not rewritten; change it by hand"
#: The code of what is replaced: ``mock.patch("torch.cuda.is_available")``.
_TARGET = "HPU018"


class Indirect(Rule):
    """``getattr(torch, "cuda")``."""

    HPU016 = Code(
        "cuda-module-as-value",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={"warning": "it may be used as a device, whose name changes"},
    )
    HPU008 = Code("star-import-of-cuda")
    HPU017 = Code("cuda-by-module-name", fix=("unsafe", "manual"))
    HPU018 = Code("cuda-in-mock-target", fix=("unsafe", "manual"))
    HPU019 = Code("cuda-in-code-text")
    wants = Wants(
        names=(_MODULE, *_READERS),
        calls=_PATCHERS,
        imports=(_MODULE,),
        strings=("cuda",),
        required=("cuda",),
    )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if module.qualified(node) != name:
            return
        if name == _MODULE:
            yield from self._value(module, node)
            return
        call = called(module, node)
        if call is None or not call.args:
            return
        if name in _ATTRIBUTES and len(call.args) > 1:
            yield from self._attribute(module, call)
        elif name in _IMPORTERS:
            yield from self._import(module, call.args[0])
        elif name in _RUNNERS:
            yield from self._code(module, call)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``mock.patch("torch.cuda.is_available")``."""
        if node.args and module.qualified(node.func) not in _READERS:
            yield from self._target(module, node.args[0])

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``[sys.executable, "-c", "import torch; torch.ones(2).cuda()"]``: a program of its own."""
        above = module.parent(node)
        if isinstance(above, ast.Expr) or (
            isinstance(above, ast.Call) and module.qualified(above.func) in _RUNNERS
        ):
            return
        if isinstance(node.value, str) and _is_program(node.value):
            yield self.finding(node, _IN_TEXT, code="HPU019")

    def on_import(self, module: Module, node: ast.alias, name: str) -> Yield:
        """``from torch.cuda.amp import *``."""
        statement = module.parent(node)
        if node.name == "*" and statement is not None:
            yield self.finding(
                statement,
                f"`{module.source(statement)}` hides which names it imports; import them by name",
                code="HPU008",
            )

    # -- the module itself ------------------------------------------------------------------

    def _value(self, module: Module, node: ast.expr) -> Yield:
        parent = module.parent(node)
        if isinstance(parent, ast.Attribute):
            return
        if isinstance(parent, ast.Call) and module.qualified(parent.func) in _ATTRIBUTES:
            return
        if isinstance(parent, ast.Call) and _patches(parent, node):
            yield self._patched(module, node, parent.args[1])
            return
        made = _typed(module, parent)
        if made is not None:
            yield self.finding(
                node,
                f"`{made}` creates tensors through `{module.source(node)}`, a module for CUDA; use "
                'calls such as `torch.zeros(…, device="hpu")`',
            )
            return
        fix = None
        if self._has_all(module, node):
            fix = Rewrite("name torch.hpu", "safe", respell(module, node, "torch.hpu"))
        yield self.finding(
            node,
            f"`{module.source(node)}` is used as a value; check that `torch.hpu` has the names "
            "that are read from it",
            fix=fix,
            severity="warning",
        )

    def _has_all(self, module: Module, node: ast.expr) -> bool:
        """Does the file read nothing from the module that `torch.hpu` does not have?"""
        values, used = module.view(Values), False
        for edge in values.reach(node, values.uses):
            above = edge.node
            if edge.same:
                continue
            if edge.how == "read" and isinstance(above, ast.Attribute):
                used = True
                _, verdict = known(module, f"{_MODULE}.{above.attr}")
                if verdict is None or verdict.target != f"torch.hpu.{above.attr}":
                    return False
            elif edge.how not in ("test", "taken", "index"):
                return False
        return used

    def _patched(self, module: Module, node: ast.expr, name: ast.expr) -> Found:
        """``monkeypatch.setattr(torch.cuda, "is_available", …)``."""
        part, verdict = known(module, f"{_MODULE}.{module.constant(name)}")
        fix = None
        if verdict is not None and verdict.target == part.replace(_MODULE, "torch.hpu", 1):
            fix = Rewrite("patch torch.hpu", "unsafe", respell(module, node, "torch.hpu"))
        return self.finding(node, _message(f"{part}"), fix=fix, code=_TARGET)

    def finish(
        self, module: Module, said: Said, found: Sequence[Found]
    ) -> Iterable[tuple[Found, Found]]:
        """A test that replaces a part of ``torch.cuda`` turns as a whole."""
        return _together(module, found).items()

    # -- a part of it, by name --------------------------------------------------------------

    def _attribute(self, module: Module, node: ast.Call) -> Yield:
        owner = module.qualified(node.args[0]) or ""
        text = module.constant(node.args[1])
        if owner == "torch" and text == "cuda" and isinstance(node.args[1], ast.Constant):
            yield self.finding(
                node.args[1],
                f"`{module.source(node)}` gets `torch.cuda` by its name; use `torch.hpu`",
                fix=Rewrite(
                    "name hpu",
                    "safe" if self._has_all(module, node) else "unsafe",
                    (retext(module, node.args[1], "hpu"),),
                ),
                severity="warning",
            )
        elif owner.startswith(_MODULE) and not owner.startswith("torch.cuda.amp"):
            yield self._below(module, node, owner, text)

    def _below(self, module: Module, node: ast.Call, owner: str, text: object) -> Found:
        shown = module.source(node)
        if isinstance(text, str):
            part, verdict = known(module, f"{owner}.{text}")
            if verdict is not None and verdict.target:
                fix = None
                if owner == _MODULE and verdict.target == f"torch.hpu.{text}":
                    changes = respell(module, node.args[0], "torch.hpu")
                    fix = Rewrite("use torch.hpu", "safe", changes)
                return self.finding(
                    node,
                    f"`{shown}` gets `{part}` by its name; use `{verdict.target}` on Gaudi",
                    fix=fix,
                    row=part,
                    severity="warning",
                )
        said = (
            f"`{shown}` gets a name of `{owner}` that is not known here; check that `torch.hpu` "
            "has it"
        )
        return self.finding(node, said, severity="warning")

    # -- names and code in strings ----------------------------------------------------------

    def _import(self, module: Module, node: ast.expr) -> Yield:
        text = module.constant(node)
        if isinstance(text, str) and (text == _MODULE or text.startswith(CUDA)):
            new = text.replace(_MODULE, "torch.hpu", 1)
            fix = None
            if isinstance(node, ast.Constant) and text.count(".") == 1 and not shared(module):
                fix = Rewrite(f"import {new}", "unsafe", (retext(module, node, new),))
            yield self.finding(
                node,
                f"`{module.source(node)}` is imported by its name; use `{new}` on Gaudi",
                fix=fix,
                code="HPU017",
            )

    def _code(self, module: Module, call: ast.Call) -> Yield:
        text = module.constant(call.args[0])
        if isinstance(text, str) and ("cuda" in text or "nccl" in text):
            yield self.finding(call, _IN_TEXT, code="HPU019")

    def _target(self, module: Module, node: ast.expr) -> Yield:
        text = module.constant(node)
        if not isinstance(text, str) or CUDA not in text:
            return
        at = text.index(CUDA)
        part, verdict = known(module, text[at:])
        fix = None
        if (
            verdict is not None
            and verdict.target.startswith("torch.")
            and isinstance(node, ast.Constant)
            and not shared(module)
        ):
            new = text[:at] + verdict.target + text[at + len(part) :]
            fix = Rewrite(f"patch {new}", "unsafe", (retext(module, node, new),))
        yield self.finding(node, _message(text[at:]), fix=fix, code=_TARGET)


def _is_program(text: str) -> bool:
    """Is a text Python that imports something and uses CUDA?"""
    if "import " not in text:
        return False
    try:
        found = list(ast.walk(ast.parse(textwrap.dedent(text))))
    except (SyntaxError, ValueError):
        return False
    uses = any(
        (isinstance(node, ast.Attribute) and node.attr == "cuda")
        or (isinstance(node, ast.Constant) and str(node.value).partition(":")[0] == "cuda")
        for node in found
    )
    return uses and any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in found)


def _typed(module: Module, kept: ast.AST | None) -> str | None:
    """``self.tt.LongTensor``, where the file says ``self.tt = torch.cuda``."""
    target = kept.targets[0] if isinstance(kept, ast.Assign) else None
    if not isinstance(target, (ast.Name, ast.Attribute)):
        return None
    for written in sorted(words_with(module, "Tensor")):
        for read in module.index.attributes(written):
            if written.endswith("Tensor") and word(read.value) == word(target):
                return module.source(read)
    return None


def _patches(call: ast.Call, node: ast.expr) -> bool:
    """Does the call replace an attribute of ``node``, which it names in its second argument?"""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _PATCHERS
        and len(call.args) > 1
        and call.args[0] is node
        and isinstance(call.args[1], ast.Constant)
    )


def _message(part: str) -> str:
    return (
        f"the test patches `{part}`; patch its `torch.hpu` counterpart once the tested code uses it"
    )


def _together(module: Module, found: Sequence[Found]) -> Mapping[Found, Found]:
    """The findings with fixes in such tests, old and new: one group, as sure as what is replaced, or without a fix where that has none.

    A test that says that CUDA is there and expects ``hpu`` holds on no machine, and neither does the reverse.
    """
    owners: dict[ast.AST, list[Found]] = {}
    for item in found:
        if item.finding.code == _TARGET and (owner := _owner(module, item.node)) is not None:
            owners.setdefault(owner, []).append(item)
    members, tied = _members(module, found, owners.keys())
    changed: dict[Found, Found] = {}
    for owner, targets in owners.items():
        inside = dict.fromkeys(members.get(owner, ()))
        for item in tuple(inside):
            inside.update(dict.fromkeys(tied.get(_group(item), ())))
        turns = all(target.finding.fix is not None for target in targets)
        group = f"mocked:{targets[0].finding.span.start}"
        changed.update({item: _joined(item, group if turns else None) for item in inside})
    return changed


def _members(
    module: Module, found: Sequence[Found], owners: Collection[ast.AST]
) -> tuple[dict[ast.AST, list[Found]], dict[str, list[Found]]]:
    """The findings with fixes inside each owner, and those of each group."""
    members: dict[ast.AST, list[Found]] = {}
    tied: dict[str, list[Found]] = {}
    for item in found if owners else ():
        if item.finding.fix is None:
            continue
        if group := _group(item):
            tied.setdefault(group, []).append(item)
        for above in (item.node, *module.ancestors(item.node)) if item.node is not None else ():
            if above in owners:
                members.setdefault(above, []).append(item)
    return members, tied


def _group(item: Found) -> str:
    return item.finding.fix.group or "" if item.finding.fix is not None else ""


def _owner(module: Module, node: ast.AST | None) -> ast.AST | None:
    """The outermost function, or the class, that the replacement is for."""
    found: ast.AST | None = None
    for above in module.ancestors(node) if node is not None else ():
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
            found is None and isinstance(above, ast.ClassDef)
        ):
            found = above
    return found


def _joined(item: Found, group: str | None) -> Found:
    fix = item.finding.fix
    if fix is None or group is None:
        return item.with_fix(None)
    return item.with_fix(msgspec.structs.replace(fix, group=group)).unsafe()
