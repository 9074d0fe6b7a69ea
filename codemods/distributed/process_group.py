"""The process group's backend: nccl becomes hccl, together with everything that requests it."""

from __future__ import annotations

import ast
from functools import partial

from hpushim.engine.python.changes import Change, Import, Replace, Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.model import Severity

from ..analysis.backends import BackendUse, backend_use
from ..analysis.defaults import given_later
from ..analysis.devices import Devices
from ..analysis.names import called, in_annotation, is_none, word
from ..analysis.placement import is_on_device
from ..analysis.roles import Role
from ..analysis.spelled_names import availability
from ..analysis.verdict import ask
from ..edits.arguments import argument, drop
from ..edits.imports import local_name, through
from ..edits.spelling import (
    BACKEND,
    agnostic,
    backend,
    kept_for_cuda,
    on_gaudi,
    quoted,
    retext,
    shared,
)
from ..values.unchosen import names_device

_AVAILABLE = (
    "torch.distributed.is_nccl_available",
    "torch.distributed.distributed_c10d.is_nccl_available",
)
_BACKENDS = (
    "torch.distributed.Backend.NCCL",
    "torch.distributed.distributed_c10d.Backend.NCCL",
)
_INIT = (
    "torch.distributed.init_process_group",
    "torch.distributed.distributed_c10d.init_process_group",
)
_NATIVE = (
    "torch.distributed.ProcessGroupNCCL",
    "torch.distributed.distributed_c10d.ProcessGroupNCCL",
    "torch._C._distributed_c10d.ProcessGroupNCCL",
)
_LIBRARY = "torch.cuda.nccl"
_CPU = "gloo"
_WRAPPER = "DistributedDataParallel"
_GROUP = "nccl"
_CODES = {
    BackendUse.GROUP: "HPU301",
    BackendUse.VALUE: "HPU302",
    BackendUse.COMPARED: "HPU303",
    BackendUse.PER_DEVICE: "HPU305",
}


class Nccl(Rule):
    """Every ``"nccl"`` that names the backend, in one group for the file."""

    HPU301 = Code(
        "nccl-backend",
        severity="error",
        fix="safe",
        lower={"warning": "it only binds the process group to a device earlier"},
    )
    HPU302 = Code(
        "nccl-value",
        severity="error",
        fix=("safe", "manual"),
        lower={"warning": "an annotation lists it as one of several choices"},
    )
    HPU303 = Code("nccl-compared", severity="error", fix="safe")
    HPU304 = Code("nccl-available", severity="error", fix=("safe", "manual"))
    HPU305 = Code("nccl-per-device", severity="error", fix="safe")
    HPU314 = Code("cuda-nccl", severity="error")
    HPU326 = Code("gloo-for-device", severity="error")
    wants = Wants(
        strings=("nccl", "NCCL"),
        names=(
            *_AVAILABLE, *_BACKENDS, *_INIT,
            *_NATIVE, *(f"{name}.*" for name in _NATIVE), f"{_LIBRARY}.*",
        ),
        project=(_WRAPPER,),
    )  # fmt: skip

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        use = backend_use(module, node)
        if use is None or module.view(Devices).handles_hpu(node):
            return
        answer = ask(module, "torch.distributed.init_process_group(backend='nccl')")
        new = on_gaudi(str(node.value))
        if _beside_a_kept_device(module, node):
            message = (
                f"`{module.source(node)}` is in an entry for CUDA, which is not "
                f"changed; add an entry for `hpu` with `{new}`"
            )
            yield self.finding(node, message, row=answer.row, code="HPU302")
            return
        changes: tuple[Change, ...] = (retext(module, node, new),)
        if agnostic(module):
            around = module.function(node)
            later = (
                given_later(module, node, backend(module, around.body[0]), last=True)
                if around
                else None
            )
            changes = later or _chosen_later(module, node) or changes
        severity: Severity | None = None
        if shared(module) and in_annotation(module, node):  # no expression may be there
            changes, severity = (), "warning"
        fix = Rewrite("use hccl", answer.safety, changes, _GROUP)
        yield self.finding(
            node,
            f"`{module.source(node)}` does not exist on Gaudi; use `{new}`",
            fix=fix if answer.fixable and changes else None,
            row=answer.row,
            code=_CODES[use],
            severity=severity,
        )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        call = called(module, node)
        if name in _AVAILABLE:
            if call is not None and not call.args:
                yield self._requested(module, node, call)
        elif module.qualified(node) != name:
            return
        elif name in _INIT:
            if call is not None:
                yield from self._bound_early(module, call)
                yield from self._without_hpu(module, call)
        elif isinstance(node, ast.Attribute):
            yield self._library(module, node, name)

    def on_module(self, module: Module) -> Yield:
        """``getattr(dist, f"is_{backend}_available")()``: torch has no such function for hccl, and one that takes the name."""
        for call, where, name in availability(module):
            available = f"{module.operand(where)}.is_backend_available"
            above = module.parent(call)
            changes: tuple[Change, ...]
            if isinstance(above, ast.Call) and above.func is call and not above.args:
                changes = (Replace(above, f"{available}({module.source(name)})"),)
            else:
                tools = local_name(module, "functools")
                new = f"{tools}.partial({available}, {module.source(name)})"
                changes = (Replace(call, new), Import("functools"))
            yield self.finding(
                call,
                f"hccl has no counterpart of `{module.source(call)}`; use `is_backend_available` with "
                "the backend's name",
                fix=Rewrite("query by the backend's name", "safe", changes, _GROUP),
                row=ask(module, _AVAILABLE[0]).row,
                code="HPU304",
            )

    def _bound_early(self, module: Module, call: ast.Call) -> Yield:
        """``device_id=`` binds the group to a CUDA device early; hccl has no such start."""
        given = argument(call, "device_id")
        if given is None or is_none(given):
            return
        changes: tuple[Change, ...] = drop(call, "device_id")
        if agnostic(module):
            return  # a device by its type, as anywhere else
        if shared(module):
            changes = kept_for_cuda(module, given, "None")
            if not changes:
                return
        yield self.finding(
            given,
            "`device_id` binds the process group to a CUDA device; hccl uses the device of the "
            "process",
            fix=Rewrite("drop the device", "safe", changes),
            row=ask(module, "torch.distributed.init_process_group(device_id=)").row,
            severity="warning",
            claims=(given,),
        )

    def _without_hpu(self, module: Module, call: ast.Call) -> Yield:
        """``init_process_group("gloo")`` of a program whose models are on the device."""
        given = argument(call, "backend", 0)
        names = {module.constant(value) for value in module.values(given)} if given else set()
        if names == {_CPU} and _wraps(module) and module.view(is_on_device) and not _is_by_device(module, call):  # fmt: skip
            answer = ask(module, _CPU)
            yield self.finding(
                given or call,
                "gloo has no collectives for tensors on `hpu`, which DistributedDataParallel and others need; use "
                "`hccl`, and a group of gloo beside it for tensors on the CPU",
                row=answer.row,
                code="HPU326",
            )

    def _library(self, module: Module, node: ast.expr, name: str) -> Found:
        """NCCL's own names."""
        shown = module.source(node)
        if name in _BACKENDS:
            change = Replace(node, quoted(module, BACKEND))
            return self.finding(
                node,
                f"`{shown}` does not exist on Gaudi; use `hccl`",
                fix=Rewrite("use hccl", "safe", (change,), _GROUP),
                code="HPU302",
            )
        if name.startswith(_LIBRARY):
            text = f"`{shown}` calls NCCL directly; use `torch.distributed` with hccl"
            return self.finding(node, text, row=ask(module, _LIBRARY).row, code="HPU314")
        text = f"`{shown}` is a class of NCCL; hccl has no counterpart to configure"
        row = ask(module, "torch.distributed.ProcessGroupNCCL").row
        return self.finding(node, text, row=row, code="HPU304")

    def _requested(self, module: Module, node: ast.expr, call: ast.Call) -> Found:
        """``is_nccl_available()``."""
        name, needed = through(module, node, "torch.distributed.is_backend_available")
        if isinstance(node, ast.Attribute):
            name, needed = f"{module.operand(node.value)}.is_backend_available", ()
        change = Replace(call, f"{name}({quoted(module, BACKEND)})")
        return self.finding(
            node,
            f"`{module.source(node)}()` tests for NCCL; on Gaudi, test for hccl",
            fix=Rewrite("request hccl", "safe", (change, *needed), _GROUP),
            row=ask(module, _AVAILABLE[0]).row,
            code="HPU304",
        )


def _chosen_later(module: Module, node: ast.Constant) -> tuple[Change, ...]:
    """``add_argument("--backend", default="nccl")``: no default, and torch's for the device where the group is made."""
    keyword = module.parent(node)
    if not isinstance(keyword, ast.keyword) or keyword.arg != "default":
        return ()
    call = module.parent(keyword)
    if not isinstance(call, ast.Call) or word(call.func) != "add_argument":
        return ()
    names = [str(module.constant(name)) for name in call.args]
    given = next((str(module.constant(k.value)) for k in call.keywords if k.arg == "dest"), "")
    dest = given or next((n for n in names if n.startswith("--")), names[0] if names else "")
    uses = module.index.attributes(dest.lstrip("-").replace("-", "_"))
    if not uses or not all(map(partial(_makes_group, module), uses)):
        return ()
    found = [(use, backend(module, use)) for use in uses]
    return (
        Replace(node, "None"),
        *(Replace(use, f"{module.source(use)} or {new}") for use, new in found),
    )


def _is_by_device(module: Module, call: ast.Call) -> bool:
    """Is the group made in a branch that a device chooses: gloo is right for the CPU's?"""
    return any(
        isinstance(above, ast.If) and names_device(above.test) for above in module.ancestors(call)
    )


def _wraps(module: Module) -> bool:
    """Does a file of the project, or this one alone, wrap models for several processes?"""
    return module.holds(_WRAPPER) or _WRAPPER in (module.project.mentions or ())


def _makes_group(module: Module, use: ast.Attribute) -> bool:
    above = module.parent(use)
    call = module.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call) or module.qualified(call.func) not in _INIT:
        return False
    return argument(call, "backend", 0) is use


def _beside_a_kept_device(module: Module, node: ast.expr) -> bool:
    """Is the backend in one tuple with a ``"cuda"`` that is not known to be a device? Half an entry is of no use to anybody."""
    entry = module.parent(node)
    return isinstance(entry, (ast.Tuple, ast.List)) and any(
        site.node in entry.elts for site in module.view(Devices).of_role(Role.UNPROVEN)
    )
