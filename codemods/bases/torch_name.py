"""The base of the rules on names below ``torch.cuda``: the matrix says what becomes of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from hpushim.engine.python.changes import Change, Guard, Remove, Rename, Replace, Rewrite
from hpushim.engine.rules.registry import rules
from hpushim.engine.rules.rule import Found, Module, Rule, Wants, Yield
from hpushim.matrix import Row, Verdict, load, signatures
from hpushim.model import Safety, Severity
from hpushim.pycode.walk import walk

from ..analysis.device_numbers import is_other_device_number
from ..analysis.names import called, word
from ..analysis.tensor_types import DTYPES
from ..analysis.verdict import inside, known, sentence
from ..edits import neutral
from ..edits.arguments import by_place
from ..edits.imports import through
from ..edits.spelling import ACCELERATOR, agnostic, shared, zero
from ..values.checks import Regions

CUDA = "torch.cuda."
#: Submodules whose functions torch also offers at the top of ``torch.cuda``.
_MODULES = ("memory", "random", "streams", "graphs", "_utils")
_SAME = re.compile(rf"^torch\.cuda\.({'|'.join(_MODULES)})\.(?=[A-Za-z_])")


#: Names below ``torch.cuda`` that do nothing, or answer 0, where CUDA is not, and that the modules of other devices may lack.
QUIET = frozenset(
    [
        *("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache"),
        *("random.manual_seed", "random.manual_seed_all"),
        *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
        *("memory_cached", "max_memory_cached", "memory_stats"),
    ]
)  # fmt: skip


#: Calls that only say what they are given.
LOGS = re.compile(r"(?:print|log|warn|info|debug|error|critical|exception)\w*")
#: Names below ``torch.cuda`` that are torch's own under another name.
_SAME_CLASS = {"OutOfMemoryError": "torch.OutOfMemoryError"}

_BY_NAME: dict[Severity, str] = {
    "warning": "its matrix row names a replacement",
    "note": "it has no effect, or does no harm without CUDA",
}


def by_name(*severities: Severity) -> dict[Severity, str]:
    """Why a finding on a name is less severe than its code."""
    return {severity: _BY_NAME[severity] for severity in severities}


@dataclass(frozen=True, eq=False)
class Name:
    """One use of a name: the whole chain of attributes, and what it means in torch's terms."""

    node: ast.expr
    name: str

    @property
    def below(self) -> str:
        """The part of the name behind ``torch.cuda.``; "" for other modules."""
        return self.name.removeprefix(CUDA) if self.name.startswith(CUDA) else ""


def plain_name(module: Module, name: str) -> str:
    """The name as most people write it: without the submodule, unless that one has the row."""
    short = _SAME.sub(CUDA, name)
    return name if short != name and known(module, short)[1] is None else short


class NameRule(Rule):
    """Base of the rules on names below ``torch.cuda``.

    The rows of the matrix that name one of its codes are its names, with what lies below them. A subclass changes single names with
    :meth:`special`.
    """

    #: Names (below ``torch.cuda.``) whose arguments CUDA can do without, so that the dual style drops them as well.
    droppable: ClassVar[frozenset[str]] = frozenset()
    #: Wanted names beside those of the rows.
    further: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in vars(cls) and "wants" not in vars(cls):
            cls.wants = Wants(names=(*_wanted(cls), *cls.further))

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """The finding on one use, where the name is this rule's."""
        if module.qualified(node) != name or isinstance(module.parent(node), ast.Attribute):
            return  # a part of a longer name, which is reported by itself
        use = Name(node, plain_name(module, name))
        code = self.takes(module, use)
        if code:
            yield from self.assess(module, use, code)

    # -- for subclasses ---------------------------------------------------------------------

    def takes(self, module: Module, use: Name) -> str:
        """The code under which the rule reports this use; "" when it is not the rule's."""
        if not use.below and agnostic(module):
            return ""  # torch's neutral names stay
        reported = rule_of(module, use.name)
        return reported if reported in self.codes else ""

    def special(self, module: Module, use: Name, code: str) -> Yield | None:
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

    def group(self, module: Module, use: Name) -> str:
        """What a rename changes together with."""
        return ""

    # -- the usual way ----------------------------------------------------------------------

    def assess(self, module: Module, use: Name, code: str) -> Yield:
        found = self.special(module, use, code)
        part, verdict = known(module, use.name)
        if found is not None:
            found = [*found]
            by_hand = agnostic(module) and "safe" in self.codes[code].fix and not any(isinstance(each, Found) and each.finding.fix for each in found)  # fmt: skip
            if by_hand and use.below and (fix := for_cuda_only(module, use.node)):
                found = [self.quiet(module, use, code, part, harmless=False, fix=fix)]
            yield from found
            return
        shown = module.source(use.node)
        if verdict is None or verdict.row is None:
            yield self.finding(
                use.node,
                f"the matrix has no row for `{shown}`, and Gaudi has no CUDA; check what the code "
                "needs from it",
                code=code,
            )
            return
        if verdict.status == "noop":
            if agnostic(module) and use.below in QUIET:
                yield self.quiet(module, use, code, part)
            elif not shared(module):
                yield self.drop(module, use, code, verdict.note)
            return
        if agnostic(module) and beside_nvidia(module, use.node):
            yield self.quiet(module, use, code, part)
            return
        if agnostic(module) and use.below in QUIET and not module.view(Regions).owners(use.node):
            yield self.quiet(module, use, code, part)
            return
        if agnostic(module) and use.below in _SAME_CLASS:
            new = _SAME_CLASS[use.below]
            yield self.rename(module, use, code, new, "safe", verdict)
            return
        target = self.target(module, use)
        if not target and agnostic(module) and (fix := for_cuda_only(module, use.node)):
            yield self.quiet(module, use, code, part, harmless=False, fix=fix)
            return
        if not target:
            yield self.finding(
                use.node, f"`{shown}` {_verdict_words(verdict)}. {sentence(verdict.note)}",
                row=part, code=code, safety="manual",
                severity="error" if verdict.row.origin and verdict.status == "unsupported" else None,
            )  # fmt: skip
            return
        if agnostic(module) and _neutral(target) == neutral.NONE:
            fix = for_cuda_only(module, use.node)
            yield self.quiet(module, use, code, part, harmless=False, fix=fix)
            return
        safety: Safety = "unsafe" if verdict.row.careful else "safe"
        yield self.rename(module, use, code, target, safety, verdict)

    def quiet(
        self,
        module: Module,
        use: Name,
        code: str,
        row: str,
        *,
        harmless: bool = True,
        fix: Rewrite | None = None,
    ) -> Found:
        """A name that stays in the agnostic style: not every device has it, or it does nothing where CUDA is not."""
        shown = module.source(use.node)
        why = ", and is harmless without CUDA" if harmless else ""
        does = "call it where CUDA is" if fix else "it is not changed"
        return self.finding(
            use.node,
            f"`{shown}` has no neutral name that each device supports{why}; {does}",
            fix=fix,
            row=row,
            code=code,
            severity="note" if harmless else None,
            safety=None if fix else "manual",
        )

    def rename(
        self,
        module: Module,
        use: Name,
        code: str,
        target: str,
        safety: Safety,
        verdict: Verdict,
        extra: Iterable[Change] = (),
        claims: Iterable[ast.AST] = (),
    ) -> Found:
        """The finding whose fix writes ``target`` in place of the use, arguments as the row says."""
        gone = [] if agnostic(module) else self.gone(module, use, verdict)
        if agnostic(module):
            target = _neutral(target)
        number = shared(module) and _device_argument(use, verdict) is not None
        without = [_given_up(module, argument, number=number) for argument in gone]
        changes = (*respell(module, use.node, target), *extra, *without)
        call = called(module, use.node)
        if target.startswith("torch.accelerator") and call is not None:
            changes += tuple(by_place(k) for k in call.keywords if k.arg == "device")
        # In the agnostic style the note is that of the name that is written.
        reported = (agnostic(module) and known(module, target)[1]) or verdict
        note = f"; {inside(reported.note)}" if reported.status != "renamed" else ""
        return self.finding(
            use.node,
            f"`{module.source(use.node)}` is for CUDA only; use `{target}`{note}"
            if agnostic(module)
            else f"`{module.source(use.node)}` is `{target}` on Gaudi{note}",
            fix=Rewrite(
                f"write {target}",
                safety,
                changes,
                self.group(module, use),
                harmless=use.below in self.droppable,
            ),
            row=verdict.row.name if verdict.row else None,
            code=code,
            severity="warning" if verdict.status == "renamed" else None,
            claims=(*gone, *claims),
        )

    def gone(
        self, module: Module, use: Name, verdict: Verdict | None
    ) -> list[ast.expr | ast.keyword]:
        """The arguments that do not come along: those that the row drops, and the index of a device."""
        call = called(module, use.node)
        if call is None:
            return []
        gone: list[ast.expr | ast.keyword] = []
        for change in verdict.row.args if verdict and verdict.row else ():
            if change.change == "drop":
                gone += [k for k in call.keywords if k.arg == change.name]
        place = _device_argument(use, verdict)
        if place is None:
            return gone
        given = call.args[place : place + 1]
        gone += [
            a for a in given if not isinstance(a, ast.Starred) and is_other_device_number(module, a)
        ]
        gone += [
            k
            for k in call.keywords
            if k.arg == "device" and is_other_device_number(module, k.value)
        ]
        return gone

    def drop(self, module: Module, use: Name, code: str, note: str) -> Found:
        """The finding for a name without effect on Gaudi; its statement goes when it has no other use."""
        message = f"`{module.source(use.node)}` does nothing on Gaudi. {sentence(note)}"
        statement = call_statement(module, use.node)
        if statement is None:
            return self.finding(use.node, message, row=use.name, code=code, safety="manual")
        fix = Rewrite("remove it", "safe", (Remove(statement),))
        return self.finding(use.node, f"{message}; remove the call", fix=fix, row=use.name, code=code, severity="note")  # fmt: skip


def beside_nvidia(module: Module, node: ast.expr) -> bool:
    """Is it one part of a condition that another part makes one for NVIDIA: ``torch.version.cuda and …``?"""
    for above in module.ancestors(node):
        if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            return any(_names_nvidia(module, value) for value in above.values)
        if isinstance(above, ast.stmt):
            return False
    return False


def runs_on_nvidia(module: Module, node: ast.AST) -> bool:
    """Does ``node`` run only where ``torch.version.cuda`` is set: behind it in a condition, or in a branch of one?"""
    inner = node
    for above in module.ancestors(node):
        match above:
            case ast.BoolOp(op, values) if inner in values:
                before = values[: values.index(inner)]
                wanted = isinstance(op, ast.And)
                if any(_set_where(module, each, wanted) for each in before):
                    return True
            case ast.If(test=test) | ast.IfExp(test=test) if inner is not test:
                body = above.body if isinstance(above.body, list) else [above.body]
                if _set_where(module, test, inner in body):
                    return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                return False
        inner = above
    return False


def _set_where(module: Module, test: ast.expr, holds: bool) -> bool:
    """Is ``torch.version.cuda`` set wherever ``test`` holds, or wherever it does not?"""
    match test:
        case ast.UnaryOp(ast.Not(), inner):
            return _set_where(module, inner, not holds)
        case ast.BoolOp(op, values):
            one = any if isinstance(op, ast.And) == holds else all
            return one(_set_where(module, each, holds) for each in values)
        case ast.Compare(ops=[operator], comparators=[ast.Constant(None)]):
            holds = holds == isinstance(operator, (ast.IsNot, ast.NotEq))
            test = test.left
    return holds and _names_nvidia(module, test)


def _names_nvidia(module: Module, node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Attribute) and module.qualified(part) == "torch.version.cuda"
        for part in walk(node)
    )


def _given_up(module: Module, argument: ast.expr | ast.keyword, *, number: bool) -> Change:
    """An argument goes, or the ``number`` of a device stays for CUDA."""
    value = argument.value if isinstance(argument, ast.keyword) else argument
    if number and is_other_device_number(module, value):
        return zero(module, value)
    return Remove(argument)


def _device_argument(use: Name, verdict: Verdict | None) -> int | None:
    """The place (0-based) of the argument that picks a device, as the row of the name says."""
    row = verdict.row if verdict is not None else None
    return row.device_argument if row is not None and use.name in row.names else None


def _wanted(rule: type[NameRule]) -> tuple[str, ...]:
    """The names whose rows name one of a rule's codes, also through the submodule that has them."""
    fronts = (CUDA, *(f"{CUDA}{module}." for module in _MODULES))
    found: dict[str, None] = {}
    for row in load().rows:
        for name in row.names if row.rule in rule.codes else ():
            below = name.removeprefix(CUDA)
            if below != name:
                found |= dict.fromkeys(
                    [name] if "." in below else [front + below for front in fronts]
                )
            elif name.startswith("torch.") and (row.status == "unsupported" or _is_alias(row)):
                found[name] = None  # a neutral name, such as those of torch.accelerator
    return tuple(name for front in found for name in (front, f"{front}.*"))


def _is_alias(row: Row) -> bool:
    """Are the row's further names those of the same thing outside of ``torch.cuda``?"""
    return row.name.startswith(CUDA) and row.status != "native"


@cache
def _name_codes() -> frozenset[str]:
    """The codes of all rules on names: a row that names one of them belongs to that rule."""
    return frozenset(code for rule in rules() if rule.extends(NameRule) for code in rule.codes)


def is_taken(module: Module, use: Name) -> bool:
    """Does a rule take the name for itself? Typed tensors have a rule of another kind."""
    return rule_of(module, use.name) in _name_codes() or use.below in DTYPES


def rule_of(module: Module, name: str) -> str:
    """The rule that the matrix gives a name to; "" without one."""
    part, _ = known(module, name)
    row = module.matrix.row(part)
    return row.rule if row is not None else ""


def respell(module: Module, node: ast.expr, target: str, tail: str = "") -> tuple[Change, ...]:
    """Writes ``target`` in place of ``node``; in the dual style ``torch.hpu`` is the module of either accelerator."""
    if agnostic(module) and target.startswith(("torch.hpu", "torch.get_device_module")):
        return _respelled(module, node, target, tail)
    if shared(module) and target.startswith("torch.hpu"):
        text, needed = through(module, node, "torch.get_device_module")
        below = target.removeprefix("torch.hpu")
        return (Replace(node, f"{text}({ACCELERATOR}){below}{tail}"), *needed)
    return (Rename(node, target, tail),)


def _neutral(target: str) -> str:
    """torch's name for every device in place of one in ``torch.hpu``: of the accelerator, or of the device's own module.

    None of those that the module of another device lacks.
    """
    if target in neutral.NAMES:
        return neutral.NAMES[target]
    below = target.removeprefix("torch.hpu")
    if below == target:
        return target
    known = all(signatures.of(f"torch.{other}{below}") for other in ("mps", "xpu"))
    return f"torch.get_device_module(){below}" if known else neutral.NONE


def _respelled(module: Module, node: ast.expr, target: str, tail: str) -> tuple[Change, ...]:
    new = _neutral(target)
    if "()" not in new:
        return (Rename(node, new, tail),)
    text, needed = through(module, node, "torch.get_device_module")
    return (
        Replace(node, f"{text}(){new.removeprefix('torch.get_device_module()')}{tail}"),
        *needed,
    )


def for_cuda_only(module: Module, node: ast.expr) -> Rewrite | None:
    """A statement whose results nobody needs runs only where CUDA is; None where a check controls it already."""
    statement = module.statement(node)
    if not isinstance(statement, ast.Expr) or module.view(Regions).owners(node):
        return None
    calls = [call for call in module.ancestors(node) if isinstance(call, ast.Call)]
    if not calls or any(node not in walk(c.func) and not LOGS.fullmatch(word(c.func)) for c in calls):  # fmt: skip
        return None
    available, needed = through(module, node, "torch.cuda.is_available")
    changes: tuple[Change, ...] = (Guard(statement, f"{available}()"), *needed)
    return Rewrite("call it where CUDA is", "safe", changes, harmless=True)


def call_statement(module: Module, node: ast.expr) -> ast.stmt | None:
    """The statement that is nothing but a call of ``node``."""
    call = called(module, node)
    statement = module.parent(call) if call is not None else None
    return statement if isinstance(statement, ast.Expr) else None


def _verdict_words(verdict: Verdict) -> str:
    return {
        "unsupported": "does not work on Gaudi",
        "unknown": "has no known counterpart on Gaudi",
        "partial": "works on Gaudi in part",
    }.get(verdict.status, "differs on Gaudi")
