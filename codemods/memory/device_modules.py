"""Functions of ``torch.cuda`` that ``torch.hpu`` lacks, called on whatever module of torch belongs to the device."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Wants, Yield
from hpushim.matrix import load
from hpushim.pycode.values import Values

from ..analysis.kinds import defines_method
from ..analysis.names import foreign, word
from ..analysis.verdict import ask, sentence
from ..values.never_run import ELSEWHERE

_CUDA = "torch.cuda."


def _lacking() -> dict[str, str]:
    """The words that represent a function which Gaudi has not, with the names of their rows."""
    return {
        name.removeprefix(_CUDA): row.name
        for row in load().by_kind("python")
        if row.status in ("noop", "unsupported") and not row.target
        for name in row.names
        if name.startswith(_CUDA) and "_" in name[len(_CUDA) + 1 :] and name.count(".") == 2
    }


_LACKING = _lacking()


class DeviceModule(Rule):
    """``torch.get_device_module(device).empty_cache()``, ``getattr(torch, kind).ipc_collect()``."""

    HPU421 = Code("missing-in-device-module")
    wants = Wants(calls=tuple(_LACKING), required=("torch",))

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or module.qualified(func) is not None:
            return
        if foreign(module, func) or defines_method(module, func.attr):
            return
        if word(func.value) in {"cuda", *ELSEWHERE} or _is_deepspeeds(module, func.value):
            return  # by its name a device's own, or an object that has it for Gaudi as well
        answer = ask(module, _LACKING[func.attr])
        yield self.finding(
            func,
            f"`{module.source(func).splitlines()[-1].strip()}` fails on Gaudi, since `torch.hpu` "
            f"has no `{func.attr}`: {_instead(module, node)}. {sentence(answer.note)}",
            row=answer.row,
        )


def _instead(module: Module, call: ast.Call) -> str:
    """What to write where the call is a statement, and where the code uses its value."""
    if isinstance(module.parent(call), ast.Expr):
        return "call it only where `hasattr` finds it"
    return "where `hasattr` does not find it, use a value for Gaudi instead"


def _is_deepspeeds(module: Module, node: ast.expr) -> bool:
    """``get_accelerator()`` of DeepSpeed."""
    made = (getattr(each, "func", None) for each in module.view(Values).origins(node))
    return any((module.qualified(func) or "").startswith("deepspeed.") for func in made)
