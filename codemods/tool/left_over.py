"""CUDA and NCCL words of which no rule has said anything: none is passed over in silence."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield
from hpushim.pycode.places import last_name
from hpushim.pycode.scope import Binding

from ..analysis.cuda_words import explained, whole
from ..analysis.names import word, words_with
from ..bases.torch_name import for_cuda_only
from ..edits.spelling import agnostic
from ..values.checks import Regions
from ..values.tokens import (
    SETTINGS,
    Account,
    Reasons,
    matches_devices,
    probed,
    tokens,
    value_of,
    word_span,
)

_MODULE = "torch.cuda"
_VARIABLES = ("CUDA_", "NCCL_")
_DEVICES = frozenset(["cpu", "mps", "xpu", "npu", "hip", "xla"])
_TESTS = (ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.Assert)


class LeftOver(Rule):
    """``methodcaller("cuda")``, ``build(where="cuda")``, ``map(Module.cuda, parts)``."""

    HPU010 = Code(
        "cuda-word-unknown",
        severity="warning",
        fix=("safe", "manual"),
        lower={
            "unknown": "anything but an environment variable whose counterpart is known",
            "note": "the matrix says that it has no effect",
        },
    )
    wants = Wants(
        names=(_MODULE, f"{_MODULE}.*"),
        strings=("nccl", "NCCL"),
        imports=(_MODULE,),
        words=("nccl",),
        texts=_VARIABLES,
    )
    also = Wants(attributes=("cuda",), strings=("cuda", "CUDA"), words=("cuda",))

    strength = Strength.REST

    def __init__(self) -> None:
        self._seen: dict[ast.AST, _Seen] = {}

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """A use of the name itself; what a variable holds is reported where it is assigned."""
        held = isinstance(node, ast.Name) and not all(_imports(b) for b in module.bindings(node))
        if (
            not held
            and not isinstance(module.parent(node), ast.Attribute)
            and not probed(module, node, name)
        ):
            self._seen.setdefault(node, _Seen("name", name, module.source(node)))
        return ()

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``x.cuda``, as a call or as a value; a switch of that name is none."""
        parent = module.parent(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        tested = isinstance(parent, _TESTS) and getattr(parent, "test", node) is node
        value = (
            isinstance(node.ctx, ast.Load) and not isinstance(parent, ast.Attribute) and not tested
        )
        if called or (value and word(node.value) not in SETTINGS):
            shown = module.source(node)
            self._seen.setdefault(
                node, _Seen("method", "cuda", shown if "\n" not in shown else "….cuda")
            )
        return ()

    def on_import(self, module: Module, node: ast.alias, name: str) -> Yield:
        """An import without a use that is known to be CUDA's; others are reported where they are used."""
        bound = node.asname or node.name.partition(".")[0]
        uses = module.index.names(bound)
        idle = not uses and module.matrix.covering(name) is not None
        if isinstance(module.parent(node), ast.ImportFrom) or node.asname:
            uses = [use for use in uses if (module.qualified(use) or "").startswith(_MODULE)]
        if bound != "*" and not uses:
            self._seen.setdefault(node, _Seen("import" if idle else "name", name, name))
        return ()

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        if node in module.index.lost:
            return ()
        parent = module.parent(node)
        if not isinstance(node.value, str):
            return ()
        found = value_of(module, node)
        if found is None and matches_devices(module, node):
            self._seen[node] = _Seen("device", node.value, module.source(node))
        elif found is not None:
            shown = found.text if isinstance(parent, ast.JoinedStr) else module.source(node)
            shown = shown if "\n" not in shown else found.text
            self._seen[node] = _Seen(found.kind, found.text, shown)
        return ()

    def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
        module.view(Account).said = said
        for name, keyword in _variables(module):
            self._seen.setdefault(keyword, _Seen("variable", name, name))
        for keyword in _tables(module):
            self._seen.setdefault(keyword, _Seen("device", "cuda", "cuda="))
        for node in self._left(module, said):
            seen = self._seen.get(node) or _Seen(*_kind_of(module, node))
            message, row, severity = explained(module, *seen)
            span = word_span(module, node)
            fix = None
            if seen.kind == "name" and isinstance(node, ast.expr) and agnostic(module):
                fix = for_cuda_only(module, node)
                if fix is not None:
                    message = f"`{seen.shown}` is CUDA's alone; call it where CUDA is"
                elif module.view(Regions).owners(node):
                    message, severity = (
                        f"`{seen.shown}` is CUDA's alone and stays behind its check",
                        "note",
                    )
            yield self.finding(span, message, row=row, severity=severity, fix=fix)

    def _left(self, module: Module, said: Said) -> Iterator[ast.AST]:
        """What no rule has reported, and what does something on the device as far as the value graph knows."""
        reasons, spans = module.view(Reasons), set()
        for node in self._seen:
            span = word_span(module, node)
            if said.of(span):
                continue
            spans.add(span)
            # A name that is known to be CUDA's needs no reason.
            text = isinstance(node, ast.Constant)
            if not (reasons.of(node) if text else reasons.beside(node)):
                yield node
        for token in tokens(module):
            node, span = token.node, token.span
            if not isinstance(node, ast.Constant) or node in self._seen:
                continue
            near = any(span.start < s.end and s.start < span.end for s in spans)
            if not near and not said.of(span) and not reasons.of(node):
                yield node


def _kind_of(module: Module, node: ast.AST) -> tuple[str, str, str]:
    """The kind of a text that is no word as a whole, its own and how it is shown."""
    shown = " ".join(module.source(node).split())
    return ("backend" if "nccl" in shown.lower() else "device", shown, shown)


def _imports(binding: Binding) -> bool:
    return isinstance(binding.node, (ast.alias, ast.Import, ast.ImportFrom))


class _Seen(NamedTuple):
    kind: str
    name: str
    shown: str


def _tables(module: Module) -> Iterator[ast.keyword]:
    """``dict(cuda=1, cpu=2)``, ``table.update(cuda=1, cpu=2)``: a table by device."""
    for keyword in module.index.keywords("cuda"):
        call = module.parent(keyword)
        if not isinstance(call, ast.Call):
            continue
        filled = module.qualified(call.func) == "builtins.dict" or last_name(call.func) == "update"
        if filled and any(other.arg in _DEVICES for other in call.keywords):
            yield keyword


def _variables(module: Module) -> Iterator[tuple[str, ast.keyword]]:
    """``dict(os.environ, CUDA_VISIBLE_DEVICES="0")``."""
    for name in {name for part in _VARIABLES for name in words_with(module, part)}:
        found = whole(name)
        if found is not None and found.kind == "variable":
            yield from ((name, keyword) for keyword in module.index.keywords(name))
