"""Names of torch's CUDA side: every use in a file, found once, and the base of the rules that rename them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Edit, Finding, Fix, Safety, Span

from . import _imports
from ._claims import claim, claimed
from ._dual import NAME, dual
from ._statements import delete_guarded
from ._text import read
from ._torch import dotted, references

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module
    from hpushim.matrix import Verdict

CUDA = "torch.cuda"
_PREFIXES = (
    "torch.cuda",
    "torch.backends.cudnn",
    "torch.backends.cuda",
    "torch.version.cuda",
    "torch._C._cuda",
)
#: Submodules whose functions torch also offers at the top of ``torch.cuda``.
_SAME = re.compile(r"^torch\.cuda\.(memory|random|streams|graphs|_utils)\.(?=[A-Za-z_])")
_RANK = re.compile(r"(^|_)(rank|gpu|gpus|gpu_?ids?|gpu_?idx|gpu_?index|device_?ids?|dev_?id|cuda_?ids?|local_?rank)$")  # fmt: skip
_COUNTS = ("torch.cuda.device_count", "torch.hpu.device_count")
_TAKEN: set[str] = set()
#: The codes of the rules on names: a row that names one of them belongs to that rule.
_CODES: set[str] = set()
#: The typed tensors of the old interface, with the dtype that each stands for.
DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


@dataclass(frozen=True, eq=False)
class Name:
    """One use of a name: the whole chain of attributes, and what it means in torch's terms."""

    node: ast.expr
    name: str

    @property
    def below(self) -> str:
        """The part of the name behind ``torch.cuda.``; "" for other modules."""
        return self.name.removeprefix("torch.cuda.") if self.name.startswith("torch.cuda.") else ""


def uses(module: Module) -> list[Name]:
    """Every use of a CUDA-side name in the file, outside import statements, in source order."""
    found: list[Name] | None = module.notes.get("cuda names")
    if found is None:
        found = []
        for node, name in references(module).items():
            if name.startswith(_PREFIXES) and not _binds(node):
                found.append(Name(node, _plain(module, name)))
        module.notes["cuda names"] = found
    return found


def _plain(module: Module, name: str) -> str:
    """The name as most people write it: without the submodule, unless that one has the row."""
    short = _SAME.sub("torch.cuda.", name)
    return name if short != name and known(module, short)[1] is None else short


def _binds(node: ast.expr) -> bool:
    """Is it a local name being given its value (``autocast = torch.cuda.amp.autocast``)?"""
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def known(module: Module, name: str) -> tuple[str, Verdict | None]:
    """The longest front part of ``name`` that has a row of its own, and the verdict on it."""
    part = name
    while part.count(".") > 1 or part == name:
        if module.matrix.row(part) is not None:
            return part, module.matrix.verdict(part, module.target)
        part = part.rpartition(".")[0]
        if not part:
            break
    return name, None


def reserve(names: Iterable[str]) -> None:
    """Says that a rule takes these names below ``torch.cuda`` without being a :class:`NameRule`."""
    _TAKEN.update(names)


def sets_default_type(module: Module, node: ast.AST | None) -> bool:
    """Is it a call of ``torch.set_default_tensor_type``?"""
    return (
        isinstance(node, ast.Call) and dotted(module, node.func) == "torch.set_default_tensor_type"
    )


def _numbers_cards(module: Module, node: ast.expr) -> bool:
    """``rank % device_count()``, ``int(os.environ["LOCAL_RANK"])``: the number of a card, whatever its name."""
    if isinstance(node, ast.Call) and dotted(module, node.func) == "torch.cuda.current_device":
        return True
    parts = list(ast.walk(node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return any(isinstance(p, ast.Attribute) and dotted(module, p) in _COUNTS for p in parts)
    integer = isinstance(node, ast.Call) and dotted(module, node.func) == "builtins.int"
    return integer and any(isinstance(p, ast.Constant) and p.value == "LOCAL_RANK" for p in parts)


def rank_like(module: Module, node: ast.expr | None) -> bool:
    """Is the expression the number of a card: an integer, or a variable named like one?"""
    if node is None:
        return False
    value = module.constant(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    inner = node
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    name = getattr(inner, "attr", getattr(inner, "id", None))
    if isinstance(inner, ast.Call):
        called = dotted(module, inner.func) or ""
        last = called.rpartition(".")[2] or getattr(inner.func, "attr", "")
        return called == "torch.cuda.current_device" or bool(re.search(r"(^|_)rank$", last))
    if not isinstance(name, str) or not _RANK.search(name.lower()):
        values = module.values(node) if isinstance(node, ast.Name) else []
        return bool(values) and all(v is not node and _numbers_cards(module, v) for v in values)
    for part in module.values(node):
        if read(part) is not None or isinstance(module.constant(part), str):
            return False
        if isinstance(part, ast.Call) and dotted(module, part.func) == "torch.device":
            return False
    return True


class NameRule(Rule):
    """Base of the rules on names below ``torch.cuda``: the matrix says what becomes of each.

    ``codes`` gives the names (below ``torch.cuda.``; a trailing ``.`` takes what is below) and their
    codes. A subclass changes single names with :meth:`special`, and what a rename costs with ``careful``.
    """

    codes: ClassVar[dict[str, str]] = {}
    #: Names whose answer has another shape on Gaudi: renamed only on request.
    careful: ClassVar[frozenset[str]] = frozenset()
    #: Where the argument that picks a card stands (0-based), by name.
    card: ClassVar[dict[str, int]] = {}

    def __init_subclass__(cls) -> None:
        _TAKEN.update(cls.codes)
        if cls.codes:
            _CODES.update((cls.code, *cls.also))

    def __init__(self) -> None:
        self._taken: list[tuple[Name, str]] = []

    def on_Module(self, module: Module, node: ast.Module) -> Iterator[Finding]:
        for use in uses(module):
            code = self.takes(module, use)
            if code:
                self._taken.append((use, code))
                self.prepare(module, use)
        yield from ()

    def on_module(self, module: Module) -> Iterator[Finding]:
        for use, code in self._taken:
            if not claimed(module, use.node):
                yield from self.judge(module, use, code)

    # -- for subclasses ---------------------------------------------------------------------

    def takes(self, module: Module, use: Name) -> str:
        """The code under which the rule reports this use; "" when it is not the rule's."""
        told = _told(module, use.name) if use.below else ""
        if told in _CODES:
            return told if told in (self.code, *self.also) else ""
        return lookup(self.codes, use.below)

    def special(self, module: Module, use: Name, code: str) -> Iterator[Finding] | None:
        """Findings for names that need more than the matrix's word; None for the usual way."""
        return None

    def target(self, module: Module, use: Name) -> str:
        """The name to write instead; "" when there is none."""
        part, verdict = known(module, use.name)
        if verdict is None or verdict.status in ("unsupported", "unknown", "noop"):
            return ""
        if not verdict.target.startswith("torch."):
            return ""
        return verdict.target + use.name[len(part) :]

    def fix_group(self, module: Module, use: Name) -> str:
        """The group of a rename: that of the import it depends on."""
        return _imports.of(module).group(use.node)

    # -- the usual way ----------------------------------------------------------------------

    def prepare(self, module: Module, use: Name) -> None:
        """Tells the plan of imports what the use will mean; only safe rewrites may ask."""
        part, verdict = known(module, use.name)
        for argument in self.gone(module, use, verdict):
            claim(module, argument)
        if dual(module):
            return  # the imports stay, for CUDA
        if verdict is not None and verdict.status == "noop" and _call_statement(module, use.node):
            _imports.of(module).want(use.node, None)
        elif (target := self.target(module, use)) and part.removeprefix(
            "torch.cuda."
        ) not in self.careful:
            _imports.of(module).want(use.node, target)

    def judge(self, module: Module, use: Name, code: str) -> Iterator[Finding]:
        found = self.special(module, use, code)
        if found is not None:
            yield from found
            return
        part, verdict = known(module, use.name)
        shown = module.source(use.node)
        if verdict is None or verdict.row is None:
            yield self.finding(
                module,
                use.node,
                f"`{shown}` is not in the matrix, and CUDA is not there on Gaudi",
                code=code,
            )
            return
        if verdict.status == "noop" and dual(module):
            return
        if verdict.status == "noop":
            yield from self.drop(module, use, code, verdict.note)
            return
        target = self.target(module, use)
        if not target:
            yield self.finding(
                module, use.node, f"`{shown}` {_verdict_words(verdict)}: {said(verdict.note)}",
                row=part, code=code, safety="manual",
            )  # fmt: skip
            return
        careful = part.removeprefix("torch.cuda.") in self.careful
        yield self.rename(module, use, code, target, "unsafe" if careful else "safe", verdict)

    def rename(
        self,
        module: Module,
        use: Name,
        code: str,
        target: str,
        safety: Safety,
        verdict: Verdict,
        extra: tuple[Edit, ...] = (),
    ) -> Finding:
        """The finding whose fix writes ``target`` in place of the use, arguments as the row says."""
        text, needed = respell(module, use.node, target)
        shown = module.source(use.node)
        edits: list[Edit] = [] if text == shown else [module.replace(use.node, text)]
        edits += [*needed, *extra]
        call = module.parent(use.node)
        if isinstance(call, ast.Call) and call.func is use.node:
            edits += self.arguments(module, use, call, verdict)
        note = f"; {said(verdict.note)}" if verdict.status != "renamed" else ""
        return self.finding(
            module,
            use.node,
            f"`{shown}` is `{target}` on Gaudi{note}",
            fix=Fix(f"write {target}", safety, tuple(edits), self.fix_group(module, use)),
            row=verdict.row.name if verdict.row else None,
            code=code,
            severity="warning" if verdict.status == "renamed" else None,
        )

    def arguments(self, module: Module, use: Name, call: ast.Call, verdict: Verdict) -> list[Edit]:
        """The edits of the call's arguments: those that the row drops, and the number of a card."""
        return without(module, call, self.gone(module, use, verdict))

    def gone(
        self, module: Module, use: Name, verdict: Verdict | None
    ) -> list[ast.expr | ast.keyword]:
        """The arguments that do not come along."""
        call = module.parent(use.node)
        if not isinstance(call, ast.Call) or call.func is not use.node:
            return []
        gone: list[ast.expr | ast.keyword] = []
        for change in verdict.row.args if verdict and verdict.row else ():
            if change.change == "drop":
                gone += [k for k in call.keywords if k.arg == change.name]
        place = self.card.get(use.below)
        if place is None:
            return gone
        given = call.args[place : place + 1]
        gone += [a for a in given if not isinstance(a, ast.Starred) and _other_card(module, a)]
        gone += [k for k in call.keywords if k.arg == "device" and _other_card(module, k.value)]
        return gone

    def drop(self, module: Module, use: Name, code: str, note: str) -> Iterator[Finding]:
        """The finding for a name without effect on Gaudi; its statement goes when it has no other use."""
        shown = module.source(use.node)
        statement = _call_statement(module, use.node)
        message = f"`{shown}` does nothing on Gaudi: {said(note)}"
        if statement is None:
            yield self.finding(module, use.node, message, row=use.name, code=code, safety="manual")
            return
        imports = _imports.of(module)
        edits = (*delete_guarded(module, statement), *imports.edits(use.node))
        fix = Fix("remove it", "safe", edits, imports.group(use.node))
        yield self.finding(
            module, use.node, message, fix=fix, row=use.name, code=code, severity="info"
        )


def said(note: str) -> str:
    """A note of the matrix inside a message: without its full stop."""
    return note.rstrip(".")


def respell(module: Module, node: ast.expr, target: str) -> tuple[str, tuple[Edit, ...]]:
    """How ``target`` is written in the place of ``node``: through the same torch, wherever it came from."""
    if dual(module) and target.startswith("torch.hpu"):
        text, needed = _imports.of(module).through(node, "torch.get_device_module")
        last = target.rpartition(".")[2]
        return f"{text}({NAME})" + ("" if target == "torch.hpu" else f".{last}"), needed
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
        if module.qualified(inner) is None and dotted(module, inner) == "torch":
            return module.source(inner) + target.removeprefix("torch"), ()
    return _imports.of(module).spell(node, target)


def lookup(codes: dict[str, str], below: str) -> str:
    """The code of a name below ``torch.cuda``: its own, or that of a front part of it."""
    part = below
    while part:
        if part in codes:
            return codes[part]
        if part != below and f"{part}." in codes:
            return codes[f"{part}."]
        part = part.rpartition(".")[0]
    return ""


def taken(module: Module, use: Name) -> bool:
    """Does a rule take the name for itself?"""
    if _told(module, use.name) in _CODES:
        return True
    return bool(lookup(dict.fromkeys(_TAKEN, "x"), use.below))


def _told(module: Module, name: str) -> str:
    """The rule that the matrix gives a name to; "" without one."""
    part, _ = known(module, name)
    row = module.matrix.row(part)
    return row.rule if row is not None else ""


def without(module: Module, call: ast.Call, gone: list[ast.expr | ast.keyword]) -> list[Edit]:
    """The edits that take arguments out of a call, with their commas."""
    given: list[ast.expr | ast.keyword] = sorted(
        [*call.args, *call.keywords], key=lambda a: module.span(a).start
    )
    stay = [a for a in given if not any(a is g for g in gone)]
    if not gone:
        return []
    if not stay:
        first, last = module.span(given[0]).start, module.span(given[-1]).end
        open_at = module.span(call.func).end
        begin = first - len(module.data[open_at:first]) + module.data[open_at:first].index(b"(") + 1
        end = module.span(call).end - 1
        return [module.replace(Span(min(begin, first), max(end, last)), "")]
    edits: list[Edit] = []
    for place, item in enumerate(given):
        if not any(item is g for g in gone):
            continue
        kept_before = [a for a in given[:place] if any(a is s for s in stay)]
        if kept_before or place:
            start = module.span(given[place - 1]).end
            edits.append(module.replace(Span(start, module.span(item).end), ""))
        else:
            edits.append(module.replace(Span(module.span(item).start, module.span(given[place + 1]).start), ""))  # fmt: skip
    return edits


def _other_card(module: Module, node: ast.expr) -> bool:
    return rank_like(module, node) and module.constant(node) != 0


def _call_statement(module: Module, node: ast.expr) -> ast.stmt | None:
    """The statement that is nothing but a call of ``node``."""
    call = module.parent(node)
    if isinstance(call, ast.Call) and call.func is node:
        statement = module.parent(call)
        if isinstance(statement, ast.Expr):
            return statement
    return None


def _verdict_words(verdict: Verdict) -> str:
    return {
        "unsupported": "does not work on Gaudi",
        "unknown": "has no known counterpart on Gaudi",
        "partial": "works on Gaudi in part",
    }.get(verdict.status, "differs on Gaudi")
