"""Kernels that a library registers for CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hpushim.engine.rules.rule import Claim, Code, Module, Rule, Wants, Yield
from hpushim.pycode.values import Values

from ..analysis.devices import Devices
from ..analysis.names import word
from ..analysis.verdict import ask, inside

_ROW = "torch.library.Library.impl"
#: What such a call is named: ``register_kernel``, ``lib.impl``, ``implements``, ``custom_op``.
_REGISTERS = re.compile(r"_?(register|registry|impl|implement|implements|custom_op|kernel)(_.*)?")
#: torch's own, which are known by their names alone.
_TORCH = ("torch.library.impl", "torch.library.custom_op", "torch.library.register_kernel", "torch.library.Library.impl")  # fmt: skip
_CUDA = frozenset({"cuda", "CUDA"})


class RegisteredKernel(Rule):
    """``@torch.library.impl("ns::op", "cuda")``."""

    HPU725 = Code("kernel-registered-for-cuda", effort="none", effect="kernel")
    wants = Wants(words=("cuda", "CUDA"), required=("regist", "impl", "custom_op", "kernel"))

    def on_module(self, module: Module) -> Yield:
        answer = ask(module, _ROW)
        for found in module.view(_registrations):
            body = found.kernel.body if found.kernel is not None else []
            yield from map(Claim, body)
            yield self.finding(
                found.devices[0],
                f"`{module.source(found.call.func)}`: {inside(answer.note)}",
                row=answer.row,
                claims=found.devices,
            )


@dataclass(frozen=True, eq=False)
class _Registration:
    """One call that registers a kernel; ``devices`` are the texts that say CUDA."""

    call: ast.Call
    devices: tuple[ast.expr, ...]
    #: The function, where it is seen and is for CUDA alone.
    kernel: ast.FunctionDef | None


def _registrations(module: Module) -> list[_Registration]:
    """Every registration of a kernel for CUDA in a file, in source order; request it as a view."""
    calls: dict[ast.Call, list[ast.expr]] = {}
    for text in module.index.strings("cuda") + module.index.strings("CUDA"):
        call = _call_of(module, text) if text.value in _CUDA else None
        if call is not None and _registers(module, call):
            calls.setdefault(call, []).append(text)
    return [
        _Registration(call, tuple(texts), _kernel(module, call, texts))
        for call, texts in sorted(calls.items(), key=lambda item: module.span(item[0]))
    ]


def _call_of(module: Module, text: ast.expr) -> ast.Call | None:
    """The call that the text is an argument of, also as a member of a list of devices."""
    above = module.parent(text)
    if isinstance(above, (ast.Tuple, ast.List, ast.Set)):
        above = module.parent(above)
    if isinstance(above, ast.keyword):
        above = module.parent(above)
    return above if isinstance(above, ast.Call) and above.func is not text else None


def _registers(module: Module, call: ast.Call) -> bool:
    """Does a call register a function: as its decorator, or by an argument?

    A name that only sounds like it is no proof: the call is a decorator, or gets a function beside the device.
    """
    if (module.qualified(call.func) or "") in _TORCH:
        return True
    if not _REGISTERS.fullmatch(word(call.func).lower()):
        return False
    if _is_own_table(module, call):
        return False
    return _decorated(module, call) is not None or _given(module, call) is not None


def _is_own_table(module: Module, call: ast.Call) -> bool:
    """Does a function of this file put it in a table that is looked up by device?"""
    devices = module.view(Devices)
    return bool(module.view(Values).callees(call)) and any(
        map(devices.goes_to_device, _values(call))
    )


def _decorated(module: Module, call: ast.Call) -> ast.FunctionDef | None:
    above = module.parent(call)
    if isinstance(above, ast.FunctionDef) and call in above.decorator_list:
        return above
    return None


def _given(module: Module, call: ast.Call) -> ast.FunctionDef | None:
    """The function of this file that a call is given by its name."""
    for argument in _values(call):
        if isinstance(argument, ast.Name):
            for binding in module.bindings(argument):
                if isinstance(binding.node, ast.FunctionDef):
                    return binding.node
    return None


def _values(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _kernel(module: Module, call: ast.Call, texts: list[ast.expr]) -> ast.FunctionDef | None:
    if any(not isinstance(module.parent(text), (ast.Call, ast.keyword)) for text in texts):
        devices = module.parent(texts[0])
        if len(getattr(devices, "elts", texts)) > len(texts):
            return None  # other devices take it as well
    return _decorated(module, call) or _given(module, call)
