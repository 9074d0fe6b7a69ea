"""Data types and layouts that Gaudi does not have."""

from __future__ import annotations

import ast
import re

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.matrix import load

from ..analysis.float16_uses import only_tests
from ..analysis.kinds import defines_method, is_in_module
from ..analysis.names import called, word
from ..analysis.placement import is_on_device
from ..analysis.training_facts import STEP_CALLS
from ..analysis.verdict import ask, inside, known, sentence
from ..values.tensors import is_tensor, lies_on_host, proven
from ..values.training import serves_step

_DOUBLE = ("torch.float64", "torch.double", "torch.DoubleTensor")
_FFT = "torch.fft"
_METHOD = "torch.Tensor."
#: Functions among the FFTs that compute none: frequencies, and the order of a result.
_NO_FFT = ("torch.fft.fftfreq", "torch.fft.rfftfreq", "torch.fft.fftshift", "torch.fft.ifftshift")
_POINTERS = ("data_ptr", "__cuda_array_interface__")
_STREAM = "torch.cuda.Stream.cuda_stream"
#: What shows that the file is about a device.
_DEVICE = re.compile(rb"cuda|hpu")
_SHARED = ("torch.utils.dlpack", "torch.to_dlpack", "torch.from_dlpack")
_EXCHANGE = ("torch.utils.dlpack.*", "torch.to_dlpack", "torch.from_dlpack")
_LIMITS = ("unsupported", "unknown", "partial", "emulated")
#: The message by whether a name fails on Gaudi, and whether it stops the program or may get tensors of the CPU.
_HOW = {
    (True, True): " does not work on Gaudi.",
    (True, False): " fails on Gaudi if its tensors are on the device.",
    (False, False): ":",
}


def _limited() -> tuple[str, ...]:
    """The names that the matrix reports under HPU118; of ``torch.fft`` whatever lies below."""
    rows = [r for r in load().by_kind("python") if r.rule == "HPU118" and r.status in _LIMITS]
    names = dict.fromkeys(name for row in rows for name in row.names)
    return (*names, "torch.fft.*")


def _methods() -> tuple[str, ...]:
    """The methods of tensors among those names."""
    return tuple(name.removeprefix(_METHOD) for name in _limited() if name.startswith(_METHOD))


class DeviceDtype(Rule):
    """``torch.float64`` and others in a file that uses the device."""

    HPU117 = Code("float64-on-device", severity="note", effect="numbers")
    HPU118 = Code(
        "dtype-or-layout-limit",
        severity="error",
        effort="hours",
        lower={"warning": "it may run outside the training step"},
    )
    HPU119 = Code("raw-device-memory", effort="hours")
    wants = Wants(
        names=(*_DOUBLE, *_limited(), *_EXCHANGE),
        attributes=(*_POINTERS, "cuda_stream"),
        calls=("double", *_methods()),
        required=("cuda", "hpu", "nn.Module", "device"),
        facts=(STEP_CALLS,),
    )

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        by_itself = isinstance(node, ast.Attribute) or called(module, node) is not None
        if not by_itself or module.qualified(node) != name:
            return
        shown = module.source(node)
        if name in _DOUBLE:
            yield from self._double(module, node, f"`{shown}`")
        elif not name.startswith(_SHARED):
            part, verdict = known(module, _FFT if name.startswith(f"{_FFT}.") else name)
            if _is_once(module, node) or only_tests(module, node):
                return
            on_device = (
                module.matches(_DEVICE) or serves_step(module, node) or module.view(is_on_device)
            )
            named_whole = not isinstance(module.parent(node), ast.Attribute)
            limited = verdict is not None and verdict.status in _LIMITS
            if on_device and named_whole and limited and name not in _NO_FFT:
                assert verdict is not None
                fails = verdict.status == "unsupported"
                stops = fails and _is_stop(module, node)
                yield self.finding(
                    node,
                    f"`{shown}`{_HOW[fails, stops]} {(sentence if fails else inside)(verdict.note)}",
                    row=part,
                    code="HPU118",
                    severity=None if stops else "warning",
                )
        else:
            yield self.finding(
                node,
                f"`{shown}` shares CUDA memory with another library, which Gaudi cannot do; copy "
                "through the CPU",
                code="HPU119",
            )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        if node.attr not in _POINTERS:
            if isinstance(node.ctx, ast.Load) and _is_stream(module, node.value):
                yield self.finding(node, f"`.{node.attr}` fails on Gaudi. {sentence(ask(module, _STREAM).note)}", row=_STREAM, code="HPU119")  # fmt: skip
            return
        yield self.finding(
            node,
            f"`.{node.attr}` is an address in Gaudi's memory, which code for CUDA or the CPU cannot read; give "
            "that code a CPU tensor",
            row="torch.Tensor.data_ptr",
            code="HPU119",
        )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        if not isinstance(node.func, ast.Attribute):
            return
        method = node.func.attr
        if method == "double":
            if not node.args:
                yield from self._double(module, node, "`.double()`")
        elif (
            is_tensor(module, node.func.value)
            and module.qualified(node.func) is None
            and (proven(module, node.func.value) or not defines_method(module, method))
        ):
            answer = ask(module, f"{_METHOD}{method}")
            fails = answer.status == "unsupported"
            stops = fails and _is_stop(module, node.func.value)
            yield self.finding(
                node,
                f"`.{method}()`{_HOW[fails, stops]} {(sentence if fails else inside)(answer.note)}",
                row=answer.row,
                code="HPU118",
                severity=None if stops else "warning",
            )

    def _double(self, module: Module, node: ast.expr, shown: str) -> Yield:
        if not (module.matches(_DEVICE) or is_in_module(module, node)) or only_tests(module, node):
            return
        yield self.finding(
            node,
            f"Gaudi computes {shown} in 32-bit floating point; where you need more, compute on the CPU",
            row="torch.float64",
        )


def _is_stream(module: Module, node: ast.expr) -> bool:
    """Is ``node`` made as a stream is, or named one: ``torch.cuda.current_stream()``, ``s = Stream()``, ``self.stream``?"""
    return any(
        "stream" in (word(each.func if isinstance(each, ast.Call) else each) or "").lower()
        for each in (node, *module.values(node))
    )


def _is_stop(module: Module, node: ast.expr) -> bool:
    """Does a training step run it, with tensors that are not seen to lie on the CPU, as those of a batch do that nothing moved?"""
    if not serves_step(module, node):
        return False
    call = called(module, node)
    given = node if call is None else call.args[0] if call.args else None
    if given is None or is_in_module(module, node):
        return True
    bound = module.bindings(given) if isinstance(given, ast.Name) else []
    batch = bool(bound) and all(binding.kind == "for" for binding in bound)
    return not batch and not lies_on_host(module, given)


def _is_once(module: Module, node: ast.expr) -> bool:
    """Is it a function that is called where a module is made, on the host and once?"""
    function = module.function(node)
    written = module.source(node).rpartition(".")[2]
    return getattr(function, "name", "") == "__init__" and written.islower()
