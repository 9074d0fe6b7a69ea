"""Arguments of calls that the matrix has rows for: ``Trainer(accelerator=)``, ``Accelerator(mixed_precision='fp16')``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hpushim.engine.python.changes import Change, Remove, Replace, Rewrite
from hpushim.engine.rules.rule import Module, Rule, Strength, Wants, Yield
from hpushim.matrix import Row, load
from hpushim.model import Safety, Severity, Span
from hpushim.pycode.values import SAME, Values

from ..analysis.devices import Devices
from ..analysis.names import foreign
from ..analysis.verdict import inside
from ..analysis.versions import assess
from ..edits.arguments import rename
from ..edits.spelling import DEVICE, agnostic, kept_for_cuda, retext, shared

#: Statuses of what is reported where a file is read anyway, and is no reason to read it.
ADVICE = ("native", "noop", "unknown")
SEVERITY: dict[str, Severity] = {
    "unsupported": "error",
    "partial": "warning",
    "changed": "warning",
    "renamed": "warning",
    "unknown": "note",
    "emulated": "note",
    "noop": "note",
}
_ROW = re.compile(r"\((?P<name>\w+)=(?P<value>[^)]*)\)$")
#: Where a row is about any value, the values that are CUDA's; others are as good on Gaudi.
_HOSTS = ("-1", '"cpu"', "'cpu'")
_CUDA_VALUES: dict[str, tuple[object, ...]] = {
    "accelerator": ("gpu", "cuda"),
    "strategy": ("ddp",),
    "precision": (16, "16", "16-mixed", "16-true", "half"),
    "tf32": (True,),
    "drop_last": (False,),
    "device_map": (),  # reported for any class, by the rule on libraries
    "fp16": (True,),
    "no_cuda": (True, False),
    "use_mxfp8_block_scaling": (True,),
}


_BY_ROW: dict[Severity, str] = {
    "warning": "its matrix row says that it works partly or differently, or the file also runs "
    "without it",
    "note": "its matrix row says that it has no effect, or that its behaviour is unknown",
}


def by_row(*severities: Severity) -> dict[Severity, str]:
    """Why a finding on a row is less severe than its code."""
    return {severity: _BY_ROW[severity] for severity in severities}


class RowRule(Rule):
    """Base of the rules whose findings are rows of the matrix: what they say of arguments.

    A subclass wants what its rows name, beside the words that it gives as ``wants``.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in vars(cls):
            reasons, others = cls.words_of_rows()
            cls.wants, cls.also = reasons | cls.wants, others | cls.also

    @classmethod
    def words_of_rows(cls) -> tuple[Wants, Wants]:
        """What the rows of its codes name, ``lightning.Trainer`` for ``lightning.Trainer(accelerator=)``: reasons to read a file, and others."""
        rows = [
            row for row in load().by_kind("argument") if row.rule in cls.codes and may_report(row)
        ]
        reasons = _called(row for row in rows if row.status not in ADVICE)
        others = _called(rows) - reasons
        return Wants(names=tuple(sorted(reasons))), Wants(names=tuple(sorted(others)))

    def __init__(self) -> None:
        #: Where an argument was reported: two calls may be given one dictionary.
        self._spans: set[Span] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """What the rows say of the arguments of a call."""
        call = module.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return
        for row, argument in given(module, call):
            verdict = assess(module, row)
            span = argument.span(module)
            if row.rule in self.codes and verdict.status != "native" and span not in self._spans:
                self._spans.add(span)
                apart = argument.key is argument.value and not _is_only_given(module, argument)
                yield self.finding(
                    span,
                    f"`{module.source(span).splitlines()[0]}`: {inside(verdict.note)}",
                    fix=None if apart else self.fix_of(module, call, argument, row, verdict.status),
                    row=row.name,
                    code=row.rule,
                    severity=self.severity_of(row, verdict.status),
                    strength=Strength.FIRM,  # it is about the argument, whoever claims the call
                    # What goes to a library with devices of its own has no other meaning, so nothing else is reported.
                    claims=(argument.value,) if foreign(module, call.func) else (),
                )

    def severity_of(self, row: Row, status: str) -> Severity:
        return SEVERITY[status]

    def fix_of(
        self, module: Module, call: ast.Call, argument: Given, row: Row, status: str
    ) -> Rewrite | None:
        """What a subclass can do about an argument; else what the row's columns describe."""
        return fix(module, call, argument, row, status)


def _is_only_given(module: Module, argument: Given) -> bool:
    """Does the text of an argument go to arguments of that name only, so that nothing else finds the new one?"""
    graph = module.view(Values)
    reached = graph.reach(argument.value, graph.uses, SAME)
    ends = [edge for edge in reached if edge.how not in SAME]
    return all(
        edge.how in ("argument", "passed")
        and isinstance(edge.node, ast.keyword)
        and edge.node.arg == argument.name
        for edge in ends
    )


class Given(NamedTuple):
    """An argument by name: in the call itself, or in a dictionary that is given with ``**``."""

    name: str
    value: ast.expr
    #: ``name=value`` in a call; None for an item of a dictionary display.
    keyword: ast.keyword | None
    key: ast.expr | None = None

    def span(self, module: Module) -> Span:
        """Where name and value are."""
        if self.keyword is not None:
            return module.span(self.keyword)
        assert self.key is not None
        return Span(module.span(self.key).start, module.span(self.value).end)


def arguments_of(module: Module, call: ast.Call) -> Iterator[Given]:
    """What a call is given by name, also through ``**options`` where the file shows what that is."""
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield Given(keyword.arg, keyword.value, keyword)
            continue
        tables = [*module.view(Values).origins(keyword.value)]
        for value in tables:  # grows
            if isinstance(value, ast.Dict):
                for key, item in zip(value.keys, value.values, strict=True):
                    name = module.constant(key) if key is not None else None
                    if key is None:
                        tables += [each for each in module.view(Values).origins(item) if each not in tables]  # fmt: skip
                    elif isinstance(name, str):
                        yield Given(name, item, None, key)
            elif isinstance(value, ast.Call) and module.qualified(value.func) == "builtins.dict":
                yield from arguments_of(module, value)
        if isinstance(keyword.value, ast.Name):
            yield from _added(module, keyword.value)


def _added(module: Module, name: ast.Name) -> Iterator[Given]:
    """``options["gpus"] = 2``, for a dictionary of this name in the same function."""
    around = module.function(name)
    for other in module.index.names(name.id):
        item = module.parent(other)
        if not isinstance(item, ast.Subscript) or module.function(other) is not around:
            continue
        statement, key = module.parent(item), module.constant(item.slice)
        if (
            isinstance(statement, ast.Assign)
            and statement.targets == [item]
            and isinstance(key, str)
        ):
            yield Given(key, statement.value, None, item)


_CALL = re.compile(r"^(?P<call>[\w.]+)\(\w+=")


def may_report(row: Row) -> bool:
    """Is there a target for which the row has something to report?"""
    return row.status != "native" or any(limit.status for limit in row.limits)


def _called(rows: Iterable[Row]) -> frozenset[str]:
    calls = (_CALL.match(name) for row in rows for name in row.names)
    return frozenset(call["call"] for call in calls if call)


def given(module: Module, call: ast.Call) -> Iterator[tuple[Row, Given]]:
    """Each row on an argument that ``call`` gives by name, with a value that the row is about."""
    name = module.qualified(call.func)
    if name is None:
        return
    seen: set[tuple[str, str]] = set()
    for row in module.matrix.arguments(name):
        for written in row.names:
            found = _ROW.search(written)
            if found is None or written.split("(")[0] != name:
                continue
            for argument in _chosen(module, call):
                about = (
                    argument.name == found["name"]
                    and _is_about(module, found["value"], argument)
                    and not _is_there(module, row, argument)
                    and (argument.name != "strategy" or _is_for_gaudi(module, call))
                )
                if about and (row.name, argument.name) not in seen:
                    seen.add((row.name, argument.name))
                    yield row, argument


def _chosen(module: Module, call: ast.Call) -> Iterator[Given]:
    """What a call is given, and of a value that is chosen elsewhere or by a condition each text that it may be."""
    for argument in arguments_of(module, call):
        yield argument
        if isinstance(argument.value, (ast.Name, ast.IfExp, ast.BoolOp, ast.Attribute)):
            for value in (*module.values(argument.value), *_defaults(module, argument.value)):
                text = isinstance(value, ast.Constant) and isinstance(value.value, str)
                if text and not module.view(Devices).handles_hpu(value):
                    yield Given(argument.name, value, None, value)


def _defaults(module: Module, value: ast.expr) -> Iterator[ast.expr]:
    """The default of the option that ``args.precision`` reads, where the file declares it."""
    for call in module.index.calls("add_argument") if isinstance(value, ast.Attribute) else ():
        names = {str(module.constant(name)).lstrip("-").replace("-", "_") for name in call.args}
        if value.attr in names:  # type: ignore[attr-defined]
            yield from (keyword.value for keyword in call.keywords if keyword.arg == "default")


def _is_for_gaudi(module: Module, call: ast.Call) -> bool:
    """Is the accelerator that a call is given Gaudi, or does it become that? Another one, and any in neutral code, takes the usual strategies."""
    ours = (*_CUDA_VALUES["accelerator"], DEVICE)
    return not agnostic(module) and any(each.name == "accelerator" and module.constant(each.value) in ours for each in _chosen(module, call))  # fmt: skip


def _is_there(module: Module, row: Row, argument: Given) -> bool:
    """Is the value the one that would be put in its place?"""
    new = [each.value for each in row.args if (each.name, each.change) == (argument.name, "replace")]  # fmt: skip
    return module.source(argument.value).replace("'", '"') in new


def _is_about(module: Module, wanted: str, argument: Given) -> bool:
    if wanted:
        return module.source(argument.value).replace('"', "'") == wanted
    if argument.name == "device" and module.source(argument.value) in _HOSTS:
        return False
    values = _CUDA_VALUES.get(argument.name)
    return values is None or module.constant(argument.value) in values


def fix(module: Module, call: ast.Call, argument: Given, row: Row, status: str) -> Rewrite | None:
    """The fix that the row's columns describe; None when they describe none.

    What is not supported anywhere can be left out; another value for it would not be taken either. A fix is
    safe where the code cannot run without it.
    """
    for change in row.args:
        if change.name != argument.name:
            continue
        if status == row.status == "unsupported" and change.change != "drop":
            continue
        changes: tuple[Change, ...] = ()
        keyword = argument.keyword
        if change.change != "replace" and shared(module):
            continue  # CUDA needs what is there
        if change.change == "drop" and keyword is not None:
            changes = (Remove(keyword),)
        elif change.change == "replace" and isinstance(argument.value, ast.Constant):
            text = change.value.strip("\"'")
            plain = isinstance(argument.value.value, str) and text != change.value
            new = retext(module, argument.value, text) if plain else None
            changes = (new or Replace(argument.value, change.value),)
            if shared(module):
                value = f"{text!r}" if plain else change.value
                changes = kept_for_cuda(module, argument.value, value.replace("'", '"'))
        elif change.change == "rename" and keyword is not None:
            changes = (rename(keyword, change.value),)
        if changes:
            safety: Safety = "safe" if status == "unsupported" else "unsafe"
            return Rewrite(f"replace it with {row.target or 'the form for Gaudi'}", safety, changes)
    return None
