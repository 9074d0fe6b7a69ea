"""Typed tensors of the old interface: torch.cuda.FloatTensor and its family."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix, Safety, Span

from . import _imports
from ._claims import claimed
from ._dual import NAME, dual
from ._names import DTYPES, Name, reserve, sets_default_type, uses
from ._statements import delete
from ._strings import quoted, retext
from ._torch import dotted
from ._verdict import ask

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_DEVICE = "tensor_device"
reserve(DTYPES)


@dataclass(eq=False)
class _Alias:
    """``Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor``, and where it is used.

    ``host`` is the other branch when it is a type of the host, ``other`` when it is a CUDA type as well.
    """

    statement: ast.Assign
    target: ast.Name
    node: ast.expr
    kind: str
    host: ast.expr | None
    other: ast.expr | None
    uses: list[ast.Name]

    def place(self, module: Module) -> tuple[int, str]:
        """What aliases that share one device variable have in common: the block and the test."""
        choice = module.parent(self.node)
        test = module.source(choice.test) if isinstance(choice, ast.IfExp) else ""
        return id(module.block(self.statement)), test


class TypedTensor(Rule):
    """``torch.cuda.FloatTensor``."""

    code = "HPU114"
    name = "cuda-typed-tensor"
    severity = "error"
    markers = (b"Tensor",)

    def __init__(self) -> None:
        self._typed: list[Name] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        if b"cuda" in module.markers and not claimed(module, node):
            self._typed = [use for use in uses(module) if use.below in DTYPES]
        yield from ()

    def on_Constant(self, module: Module, node: ast.Constant) -> Iterable[Finding]:
        """``x.type() == "torch.cuda.FloatTensor"``, ``x.type("torch.cuda.FloatTensor")``."""
        text = node.value
        if not isinstance(text, str) or not text.startswith("torch.cuda."):
            return ()
        return self._text(module, node, text)

    def _text(self, module: Module, node: ast.Constant, text: str) -> Iterator[Finding]:
        kind = text.removeprefix("torch.cuda.")
        if kind not in DTYPES or claimed(module, node):
            return
        parent = module.parent(node)
        if isinstance(parent, ast.Call) and _is_type_call(parent, node):
            yield self._finding(module, node, kind, self._typed_move(module, parent, kind, "hpu"))
        elif isinstance(parent, (ast.Compare, ast.Dict, ast.List, ast.Tuple, ast.Set)):
            edit = retext(module, node, f"torch.hpu.{kind}")
            if dual(module):
                edit = module.replace(node, f'f"torch.{{{NAME}}}.{kind}"')
            yield self._finding(module, node, kind, [edit])

    def on_module(self, module: Module) -> Iterator[Finding]:
        if not self._typed:
            return
        aliases = self._aliases(module)
        shared: dict[tuple[int, str], str] = {}
        for use in self._typed:
            alias = aliases.get(use.node)
            if alias is not None:
                yield self._through_alias(module, use, alias, shared)
            else:
                yield from self._direct(module, use)

    # -- where it is written ----------------------------------------------------------------

    def _direct(self, module: Module, use: Name) -> Iterator[Finding]:
        parent = module.parent(use.node)
        kind = use.below
        if isinstance(parent, ast.Call) and parent.func is use.node:
            text, needed = _imports.of(module).through(use.node, f"torch.{kind}")
            edits = [module.replace(use.node, text), *needed]
            edits.append(
                module.insert(module.span(parent).end, f".to({quoted(module, 'hpu', use.node)})")
            )
            yield self._finding(module, use.node, kind, edits)
        elif isinstance(parent, ast.Call) and _is_type_call(parent, use.node):
            yield self._finding(
                module, use.node, kind, self._typed_move(module, parent, kind, "hpu")
            )
        elif (chosen := self._chosen(module, use, parent)) is not None:
            yield self._finding(module, use.node, kind, chosen)
        elif isinstance(parent, ast.Call) and dotted(module, parent.func) == "builtins.isinstance":
            subject = module.source(parent.args[0])
            dtype, needed = _imports.of(module).through(use.node, f"torch.{DTYPES[kind]}")
            new = (
                f"({subject}.device.type == {quoted(module, 'hpu')} and {subject}.dtype == {dtype})"
            )
            edits = [module.replace(parent, new), *needed]
            yield self._finding(module, use.node, kind, edits, "unsafe")
        elif sets_default_type(module, parent) or sets_default_type(
            module, module.parent(parent or use.node)
        ):
            return  # the rule on defaults of the process
        else:
            text, needed = _imports.of(module).spell(use.node, f"torch.hpu.{kind}")
            edits = [module.replace(use.node, text), *needed]
            yield self._finding(module, use.node, kind, edits, "unsafe")

    def _chosen(self, module: Module, use: Name, parent: ast.AST | None) -> list[Edit] | None:
        """``x.type(torch.cuda.FloatTensor if cuda else torch.FloatTensor)``."""
        call = module.parent(parent) if isinstance(parent, ast.IfExp) else None
        if not isinstance(parent, ast.IfExp) or not isinstance(call, ast.Call):
            return None
        side = parent.orelse if parent.body is use.node else parent.body
        if not _is_type_call(call, parent) or not _is_host_type(module, side, use.below):
            return None
        dtype, needed = _imports.of(module).through(call, f"torch.{DTYPES[use.below]}")
        end = module.span(call.func).end
        return [
            module.replace(Span(end - len("type"), end), "to"),
            module.replace(use.node, quoted(module, "hpu")),
            module.replace(side, quoted(module, "cpu")),
            module.insert(module.span(parent).end, f", {dtype}"),
            *needed,
        ]

    def _typed_move(self, module: Module, call: ast.Call, kind: str, device: str) -> list[Edit]:
        """``x.type(T)`` to ``x.to(device, dtype)``."""
        dtype, needed = _imports.of(module).through(call, f"torch.{DTYPES[kind]}")
        end = module.span(call.func).end
        word = quoted(module, device) if device == "hpu" else device
        return [
            module.replace(Span(end - len("type"), end), "to"),
            module.replace(call.args[0], f"{word}, {dtype}"),
            *needed,
        ]

    def _finding(
        self, module: Module, node: ast.expr, kind: str, edits: list[Edit], safety: Safety = "safe",
        group: str = "",
    ) -> Finding:  # fmt: skip
        return self.finding(
            module,
            node,
            f"`{module.source(node)}` is a type of CUDA tensors; "
            f"say the device and `torch.{DTYPES[kind]}` instead",
            fix=Fix("say device and dtype", safety, tuple(edits), group),
            row=ask(module, f"torch.cuda.{kind}").row,
        )

    # -- through a name ---------------------------------------------------------------------

    def _aliases(self, module: Module) -> dict[ast.expr, _Alias]:
        """For each typed tensor that is given a name: the name, if all its uses can be told."""
        found: dict[ast.expr, _Alias] = {}
        named = (*module.of_type(ast.Name), *module.of_type(ast.arg))
        if any(_binds(node, _DEVICE) for node in named):
            return found
        for use in self._typed:
            alias = self._alias(module, use)
            if alias is not None:
                found[use.node] = alias
        return found

    def _alias(self, module: Module, use: Name) -> _Alias | None:
        parent = module.parent(use.node)
        choice = parent if isinstance(parent, ast.IfExp) else None
        statement = module.parent(choice) if choice is not None else parent
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return None
        host = other = None
        if choice is not None:
            side = choice.orelse if choice.body is use.node else choice.body
            if _is_host_type(module, side, use.below):
                host = side
            elif any(side is typed.node for typed in self._typed):
                other = side
            else:
                return None
        bound = module.scope(target).lookup(target.id)
        loads = [
            node
            for node in module.of_type(ast.Name)
            if node.id == target.id
            and isinstance(node.ctx, ast.Load)
            and module.bindings(node) is bound
        ]
        if len(bound) != 1 or not loads or not all(_plain_use(module, load) for load in loads):
            return None
        if other is not None and any(not _is_type_use(module, load) for load in loads):
            return None
        return _Alias(statement, target, use.node, use.below, host, other, loads)

    def _through_alias(
        self, module: Module, use: Name, alias: _Alias, shared: dict[tuple[int, str], str]
    ) -> Finding:
        if alias.other is not None:
            return self._dtype_alias(module, use, alias)
        place = alias.place(module)
        name = shared.get(place)
        edits: list[Edit] = []
        if name is None:
            same_block = sum(block == place[0] for block, _ in shared)
            name = f"{_DEVICE}_{same_block + 1}" if same_block else _DEVICE
            shared[place] = name
            edits.append(module.replace(alias.target, name))
            edits.append(module.replace(alias.node, quoted(module, "hpu")))
            if alias.host is not None:
                edits.append(module.replace(alias.host, quoted(module, "cpu")))
        else:
            edits += delete(module, [alias.statement])
        for load in alias.uses:
            call = module.parent(load)
            assert isinstance(call, ast.Call)
            if call.func is load:
                text, needed = _imports.of(module).through(load, f"torch.{alias.kind}")
                edits += [module.replace(load, text), *needed]
                edits.append(module.insert(module.span(call).end, f".to({name})"))
            else:
                edits += self._typed_move(module, call, alias.kind, name)
        return self._finding(module, use.node, alias.kind, edits, group=f"typed:{name}")

    def _dtype_alias(self, module: Module, use: Name, alias: _Alias) -> Finding:
        """``kind = torch.cuda.HalfTensor if half else torch.cuda.FloatTensor``: a choice of dtypes."""
        edits: list[Edit] = []
        for typed in self._typed:
            if typed.node in (alias.node, alias.other):
                text, needed = _imports.of(module).through(
                    typed.node, f"torch.{DTYPES[typed.below]}"
                )
                edits += [module.replace(typed.node, text), *needed]
        for load in alias.uses:
            call = module.parent(load)
            assert isinstance(call, ast.Call)
            end = module.span(call.func).end
            edits.append(module.replace(Span(end - len("type"), end), "to"))
            edits.append(module.insert(module.span(load).start, f"{quoted(module, 'hpu')}, "))
        line = alias.statement.lineno
        return self._finding(module, use.node, alias.kind, edits, group=f"typed:{line}")


def _is_type_call(call: ast.Call, argument: ast.AST) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "type"
        and len(call.args) == 1
        and call.args[0] is argument
        and not call.keywords
    )


def _is_host_type(module: Module, node: ast.expr, kind: str) -> bool:
    return dotted(module, node) in (f"torch.{kind}", *(("torch.Tensor",) if kind == "FloatTensor" else ()))  # fmt: skip


def _is_type_use(module: Module, load: ast.Name) -> bool:
    parent = module.parent(load)
    return isinstance(parent, ast.Call) and _is_type_call(parent, load)


def _plain_use(module: Module, load: ast.Name) -> bool:
    """Is the name only called, or given to ``.type()``?"""
    parent = module.parent(load)
    return isinstance(parent, ast.Call) and (parent.func is load or _is_type_call(parent, load))


def _binds(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.arg) and node.arg == name
    )
