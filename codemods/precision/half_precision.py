"""float16 becomes bfloat16, which has the range of float32 and needs no loss scaling."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.references import find
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Span
from hpushim.pycode.walk import walk

from ..analysis.float16_uses import HALF, autocast_halves, followers, only_tests
from ..analysis.kinds import defines_method, is_in_module, said
from ..analysis.names import called, foreign, word
from ..analysis.placement import is_on_device
from ..analysis.project_facts import HALVED
from ..analysis.trainers import NAMES as TRAINERS
from ..analysis.trainers import fields, is_settings, own_class
from ..analysis.verdict import ask
from ..bases.row_argument import arguments_of
from ..edits.arguments import attribute, rename
from ..edits.imports import through
from ..edits.spelling import agnostic, half, retext
from ..values.tensors import is_other, proven

#: How a type of tensors ends that is one of float16: `torch.cuda.HalfTensor`.
_TYPE = ".HalfTensor"
#: A configuration for bfloat16 in the file: ``args.bf16``, ``torch.bfloat16``, ``"bf16"``.
_BF16 = re.compile(rb"\b(bf16|bfloat16|use_bf16)\b")


class AutocastHalf(Rule):
    """The float16 that an autocast gets, and other uses of float16."""

    HPU203 = Code(
        "autocast-float16",
        severity="error",
        fix=("safe", "manual"),
        effect="numbers",
        lower={"warning": "it runs on Gaudi, with other results"},
    )
    HPU208 = Code("half-call", fix=("unsafe",), effect="numbers")
    HPU209 = Code(
        "float16-dtype",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        effect="numbers",
        lower={"warning": "it runs on Gaudi, with other results"},
    )
    wants = Wants(
        names=tuple(sorted(HALF)),
        calls=("half",),
        keywords=("fp16", "mixed_precision", "loss_scale"),
        strings=("fp16", _TYPE),
        facts=(HALVED,),
    )
    also = Wants(names=tuple(TRAINERS))

    def __init__(self) -> None:
        self._turned = False
        #: Entries of tables that have a finding: two calls may be given one table.
        self._spans: set[Span] = set()

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        if is_settings(name):
            yield from self._fields(module, node)
            yield from self._tables(module, called(module, node))
            return
        if (
            name not in HALF
            or not isinstance(node, ast.Attribute)
            or module.qualified(node) != name
        ):
            return
        if node in module.view(autocast_halves):
            yield self._in_autocast(module, node)
        elif not only_tests(module, node):
            if not _of_host(module, node):
                yield self._elsewhere(module, node)
        elif not agnostic(module) and not module.view(_is_cast_here):
            yield from self._compared(module, node)

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or not _is_cast(module, node):
            return
        sure = proven(module, func.value)
        last_line = module.source(func).splitlines()[-1].strip()
        wanted = "" if sure else ", if it is called on a tensor or a model"
        beside = "; the file also uses bfloat16, and operators reject a mix of both" if module.matches(_BF16) else ""  # fmt: skip
        yield self.finding(
            func,
            f"`{last_line}()` converts to float16{wanted}; use bfloat16 on Gaudi{beside}",
            fix=self._as_call(module, attribute(func, "bfloat16")),
            row=ask(module, "torch.Tensor.half").row,
            code="HPU208",
        )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``{"fp16": {"enabled": True, "loss_scale": 0}}``, the settings that DeepSpeed is given; ``x.type() == "torch.cuda.HalfTensor"``."""
        table = module.parent(node)
        if str(node.value).endswith(_TYPE):
            yield from self._compared(module, node)
            return
        if node.value != "fp16" or not isinstance(table, ast.Dict) or node not in table.keys:
            return
        inner = table.values[table.keys.index(node)]
        keys = inner.keys if isinstance(inner, ast.Dict) else []
        names = [module.constant(key) for key in keys]
        if isinstance(inner, ast.Dict) and "enabled" in names:
            value = inner.values[names.index("enabled")]
            if module.constant(value) is not False:
                yield self.finding(
                    node,
                    "DeepSpeed's `fp16` trains in float16; use `bf16` on Gaudi, which needs no loss scale",
                    row=ask(module, "torch.float16").row,
                    code="HPU209",
                    severity="warning",
                )

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        call = module.parent(node)
        if not isinstance(call, ast.Call):
            return
        name = module.qualified(call.func) or ""
        last = name.rpartition(".")[2]
        if node.arg == "fp16":
            # The settings of trl's trainers are TrainingArguments with a name of their own.
            settings = last.endswith("Arguments") or (name.startswith("trl.") and last.endswith("Config"))  # fmt: skip
            if settings and (not isinstance(node.value, ast.Constant) or node.value.value is True):
                yield self._arguments(module, node, call)
        elif node.arg == "loss_scale":
            if name == "builtins.dict" and _named(module, call) == "fp16":
                yield self.finding(
                    node,
                    "`fp16` trains in float16 with loss scaling; use bfloat16 on Gaudi",
                    row=ask(module, "torch.float16").row,
                    code="HPU209",
                    severity="warning",
                )
        elif module.constant(node.value) == "fp16" and last != "Accelerator":  # it has a row
            yield self.finding(
                node,
                '`mixed_precision="fp16"` trains in float16; use bfloat16 on Gaudi',
                fix=Rewrite("use bfloat16", "unsafe", (retext(module, node.value, "bf16"),)),
                code="HPU209",
                severity="warning",
            )

    # -- what is reported -----------------------------------------------------------------------

    def _in_autocast(self, module: Module, node: ast.expr) -> Found:
        answer = ask(module, "torch.float16")
        fix = Rewrite("autocast to bfloat16", answer.safety, _as_bfloat16(module, node))
        return self.finding(
            node,
            f"`{module.source(node)}` is the dtype of autocast; on Gaudi use bfloat16, with which "
            "results differ slightly",
            fix=fix if answer.fixable else None,
            row=answer.row,
            severity=None if answer.status == "unsupported" else "warning",
            claims=(node,),
        )

    def _elsewhere(self, module: Module, node: ast.expr) -> Found:
        return self.finding(
            node,
            f"`{module.source(node)}` selects float16; use bfloat16 on Gaudi",
            fix=self._with_followers(module, *_as_bfloat16(module, node)),
            row=ask(module, "torch.float16").row,
            code="HPU209",
            severity="warning",
        )

    def _compared(self, module: Module, node: ast.Attribute | ast.Constant) -> Yield:
        """A comparison with what other files set: once that is bfloat16, it has to know both."""
        above = module.parent(node)
        several = isinstance(above, (ast.Tuple, ast.List, ast.Set))
        compare = module.parent(above) if several and above is not None else above
        cast = said(module, HALVED)
        if not cast or not isinstance(compare, ast.Compare):
            return
        changes: tuple[Change, ...] = ()
        if isinstance(node, ast.Attribute):
            if node not in module.view(followers):
                return
            changes = _with_bfloat16(module, compare, node)
        fix = Rewrite("know bfloat16, too", "unsafe", changes)
        yield self.finding(
            node,
            f"`{module.source(compare)}` is False once the project's casts to float16 are "
            "casts to bfloat16; compare with both dtypes",
            fix=fix if fix.changes else None,
            row=ask(module, "torch.float16").row,
            code="HPU209",
            severity="warning",
        )

    def _as_call(self, module: Module, change: Change) -> Rewrite:
        """Calls of ``.half()`` change one by one where nothing compares with float16."""
        if module.view(followers):
            return self._with_followers(module, change)
        return Rewrite("use bfloat16", "unsafe", (change,))

    def _with_followers(self, module: Module, *changes: Change) -> Rewrite:
        """A rewrite to bfloat16; the first in a file also changes comparisons with the earlier float16."""
        uses = [] if self._turned else module.view(followers)
        self._turned = True
        more = (change for each in uses for change in _as_bfloat16(module, each))
        return Rewrite("use bfloat16", "unsafe", tuple(dict.fromkeys((*changes, *more))), "float16")

    def _fields(self, module: Module, node: ast.expr) -> Yield:
        """``fp16: bool = True`` in a class of the project that holds a trainer's settings."""
        own = own_class(module, node)
        for name, value in fields(own) if own is not None else ():
            if name == "fp16" and module.constant(value) is True:
                yield self.finding(
                    value,
                    "`fp16` is True by default and trains in float16; set `bf16` on Gaudi",
                    code="HPU209",
                    severity="warning",
                    row=ask(module, "transformers.TrainingArguments(fp16=)").row,
                )

    def _tables(self, module: Module, call: ast.Call | None) -> Yield:
        """``TrainingArguments(**{"fp16": True})``, ``**options``."""
        if call is None:
            return
        for given in arguments_of(module, call):
            span = given.span(module)
            # What it is given by its name has a finding of its own.
            if given.keyword not in call.keywords and given.name == "fp16" and module.constant(given.value) is True and span not in self._spans:  # fmt: skip
                self._spans.add(span)
                yield self.finding(
                    span,
                    f"`{module.source(span)}` trains in float16; use bfloat16 on Gaudi",
                    code="HPU209",
                    severity="warning",
                    row=ask(module, "transformers.TrainingArguments(fp16=)").row,
                )

    def _arguments(self, module: Module, node: ast.keyword, call: ast.Call) -> Found:
        """``TrainingArguments(fp16=True)``."""
        answer = ask(module, "transformers.TrainingArguments(fp16=)")
        stops = answer.status == "unsupported"  # on Gaudi 1; the others run it, in other numbers
        fix = Rewrite("use bfloat16", "safe" if stops else "unsafe", (rename(node, "bf16"),))
        taken = any(keyword.arg == "bf16" for keyword in call.keywords)
        return self.finding(
            node,
            f"`{module.source(node)}` trains in float16; use bfloat16 on Gaudi",
            fix=None if taken else fix,
            code="HPU209",
            row=answer.row,
            severity=None if stops else "warning",
        )


#: What layers and their parameters have: `layer.weight.data.half()`.
_OF_LAYERS = frozenset(["weight", "bias", "data", "grad"])


def _of_host(module: Module, node: ast.AST) -> bool:
    """Is it the dtype of a model that a call puts on the host: ``device_map={"": "cpu"}``?"""
    keyword = module.parent(node)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) else None
    for other in call.keywords if isinstance(call, ast.Call) else ():
        places = other.value.values if isinstance(other.value, ast.Dict) else [other.value]
        if other.arg == "device_map" and all(module.constant(place) == "cpu" for place in places):
            return True
    return False


def _is_cast(module: Module, call: ast.Call) -> bool:
    """Is it ``x.half()`` of torch, and not only a rounding, after which nothing stays in float16?"""
    func, above = call.func, module.parent(call)
    return (
        isinstance(func, ast.Attribute)
        and not (call.args or call.keywords)
        and module.qualified(func) is None
        and _may_be_torch(module, func)
        and not (isinstance(above, ast.Attribute) and above.attr in ("float", "double"))
    )


def _is_cast_here(module: Module) -> bool:
    """Does the file set float16 itself, so that the rewrite of that changes its comparisons as well?"""
    if any(_is_cast(module, call) for call in module.index.calls("half")):
        return True
    named = (node for node, _ in find(module, *sorted(HALF)))
    of_regions = module.view(autocast_halves)
    return any(
        node not in of_regions and not only_tests(module, node) and not _of_host(module, node)
        for node in named
        if isinstance(node, ast.Attribute)
    )


def _with_bfloat16(module: Module, compare: ast.Compare, node: ast.Attribute) -> tuple[Change, ...]:
    """``x.dtype == torch.half`` to ``x.dtype in (torch.half, torch.bfloat16)``, and a further element where there are several."""
    bfloat16, needed = through(module, node, "torch.bfloat16")
    above, operator = module.parent(node), compare.ops[0]
    if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
        inside = ", ".join([*map(module.source, above.elts), bfloat16])
        marks = {ast.Tuple: "()", ast.List: "[]", ast.Set: "{}"}[type(above)]
        return (Replace(above, f"{marks[0]}{inside}{marks[1]}"), *needed)
    if len(compare.ops) != 1 or not isinstance(operator, (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
        return ()
    other = compare.comparators[0] if compare.left is node else compare.left
    how = "in" if isinstance(operator, (ast.Eq, ast.Is)) else "not in"
    uses = f"{module.operand(other)} {how} ({module.source(node)}, {bfloat16})"
    return (Replace(compare, uses), *needed)


def _may_be_torch(module: Module, func: ast.Attribute) -> bool:
    """Is ``x.half()`` torch's, as far as is seen: no method of the project, of another library, of something on the host?"""
    if proven(module, func.value):
        return True
    if foreign(module, func) or defines_method(module, func.attr) or is_other(module, func.value):
        return False
    return (
        module.view(is_on_device)
        or is_in_module(module, func)
        or any(
            isinstance(part, ast.Attribute) and part.attr in _OF_LAYERS for part in walk(func.value)
        )
    )


def _as_bfloat16(module: Module, node: ast.expr) -> tuple[Change, ...]:
    text, needed = half(module, node)
    return (Replace(node, text), *needed)


def _named(module: Module, value: ast.expr) -> str:
    """What a value is called where it is made: ``fp16 = dict(…)``, ``setup(fp16=dict(…))``."""
    above = module.parent(value)
    if isinstance(above, ast.Assign) and len(above.targets) == 1:
        return word(above.targets[0])
    return above.arg or "" if isinstance(above, ast.keyword) else ""
