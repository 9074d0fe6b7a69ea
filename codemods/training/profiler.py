"""Profiling: activities and columns."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Change, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants, Yield
from hpushim.pycode import composed

from ..analysis.device_texts import device_name
from ..analysis.verdict import ask
from ..edits.arguments import attribute
from ..edits.spelling import ACCELERATOR, quoted, retext, shared

_CUDA = "CUDA"
_ACTIVITY = "ProfilerActivity.CUDA"
_COLUMNS = ("cuda_time", "cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "self_cuda_memory_usage")  # fmt: skip
#: What follows the device in a column whose name is put together.
_ENDINGS = ("_time_total", "_memory_usage", "_time")
_ROW = "torch.autograd.profiler_util.EventList.table(sort_by=)"
_PROFILES = ("torch.autograd.profiler.profile", "torch.autograd.profiler_legacy.profile", "torch.profiler.profile")  # fmt: skip


class ProfilerDevice(Rule):
    """``ProfilerActivity.CUDA`` and the columns of the profiler's tables."""

    HPU617 = Code("profiler-activity-cuda", severity="error", fix=("safe", "manual"))
    HPU618 = Code(
        "profiler-column-cuda",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower={
            "warning": "newer releases of torch name it differently, or it may be another device"
        },
    )
    wants = Wants(
        attributes=_COLUMNS,
        strings=("cuda_time", "cuda_memory_usage", "_time_total", "_memory_usage"),
        keywords=("use_cuda", "use_device"),
        words=("ProfilerActivity",),
    )
    also = Wants(attributes=(_CUDA,))

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        if node.attr == _CUDA:
            yield from self._activity(module, node)
        elif isinstance(node.ctx, ast.Load):
            yield self._column(module, node)

    def _activity(self, module: Module, node: ast.Attribute) -> Yield:
        name = module.qualified(node) or ""
        if not name.endswith(_ACTIVITY) or _is_beside_hpu(module, node):
            return
        answer = ask(module, "torch.profiler.ProfilerActivity.CUDA")
        change: Change = attribute(node, "HPU")
        if shared(module):
            text = f"getattr({module.source(node.value)}, {ACCELERATOR}.upper())"
            change = Replace(node, text)
        yield self.finding(
            node,
            f"`{module.source(node)}` records nothing on Gaudi; use `ProfilerActivity.HPU`",
            fix=Rewrite("record HPU", answer.safety, (change,)),
            row=answer.row,
        )

    def _column(self, module: Module, node: ast.Attribute) -> Found:
        """``event.cuda_time_total``."""
        new = node.attr.replace("cuda", "device")
        return self.finding(
            node,
            f"`.{node.attr}` is for CUDA only; use `.{new}`, which works for every device",
            fix=Rewrite(f"read {new}", "unsafe", (attribute(node, new),)),
            code="HPU618",
            severity="warning",
        )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``table(sort_by="cuda_time_total")``."""
        parent = module.parent(node)
        if node.value in _ENDINGS:
            yield from self._composed(module, node)
        if node.value not in _COLUMNS or not isinstance(parent, ast.keyword):
            return
        # export_stacks(metric=) takes CUDA's name alone, for any device.
        if parent.arg == "sort_by":
            new = str(node.value).replace("cuda", "device")
            yield self.finding(
                node,
                f"`{module.source(node)}` is for CUDA only; use `{new}`, which works for every device",
                fix=Rewrite(f"sort by {new}", "safe", (retext(module, node, new),)),
                row=ask(module, _ROW).row,
                code="HPU618",
            )

    def _composed(self, module: Module, ending: ast.Constant) -> Yield:
        """``f"self_{device.type}_time_total"``, ``"self_" + device + "_time_total"``."""
        whole: ast.AST = ending
        while isinstance(above := module.parent(whole), (ast.JoinedStr, ast.BinOp)):
            whole = above
        parts = composed.pieces(whole) or ()
        *front, device, last = parts if len(parts) > 1 else (None, None)
        if last != ending.value or front not in ([], ["self_"]) or not isinstance(device, ast.expr):
            return
        if not device_name(module.source(device)) and getattr(device, "attr", "") != "type":
            return
        new = "".join(map(str, (*front, "device", last)))
        yield self.finding(
            whole,
            f"`{module.source(whole)}` does not exist for `hpu`; use `{new}`, which works for "
            "every device",
            fix=Rewrite(f"sort by {new}", "safe", (Replace(whole, quoted(module, new)),)),
            row=ask(module, _ROW).row,
            code="HPU618",
        )

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        """``profile(use_cuda=True)``, ``profile(use_device="cuda")``."""
        call = module.parent(node)
        given = module.constant(node.value)
        if isinstance(given, str):
            given = given.startswith("cuda")
        elif isinstance(node.value, ast.Constant):
            given = bool(given)
        if given is not False and isinstance(call, ast.Call) and module.qualified(call.func) in _PROFILES:  # fmt: skip
            known = given is True or node.arg == "use_cuda"
            said = "profiles CUDA only" if known else "records nothing on Gaudi where it names CUDA"
            yield self.finding(
                node,
                f"`{module.source(node)}` {said}; use `torch.profiler.profile` with `ProfilerActivity.HPU`",
                code="HPU618",
                severity=None if known else "warning",
                row=ask(module, _PROFILES[0]).row,
                strength=Strength.FIRM,
                claims=(node,),
            )


def _is_beside_hpu(module: Module, node: ast.AST) -> bool:
    parent = module.parent(node)
    return isinstance(parent, (ast.List, ast.Tuple, ast.Set)) and any(
        isinstance(e, ast.Attribute) and e.attr == "HPU" for e in parent.elts
    )
