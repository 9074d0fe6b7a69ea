"""Whether a file puts anything on a device."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from .names import word
from .words import words_with

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_DEVICE = re.compile(r"(cuda|hpu|gpu)(:\d+)?")
_LABEL = re.compile(r"dev|gpu|rank", re.I)
#: Functions, options and attributes that are named for a device: ``move_to_cuda``, ``args.n_gpu``.
_NAMED = re.compile(r"(^|_)(cuda|gpus?|hpus?)(_|$)|(to|move|put|get|on|map|select)_?(\w*_)?device|Gpu(s|_|$)|GPU|Cuda")  # fmt: skip
#: What only runs where there is a device of some kind.
_DRIVERS = frozenset(["accelerate", "deepspeed", "apex"])
#: Other packages with a ``backward`` and a ``Trainer.step`` of their own.
_OTHER_FRAMEWORKS = frozenset(["mxnet", "tensorflow", "jax", "paddle", "mindspore", "oneflow"])


def is_on_device(module: Module) -> bool:
    """Does the file put anything on a device that is not surely the CPU?"""
    index = module.index
    return (
        any(index.attributes(name) for name in ("cuda", "is_cuda", "hpu", "current_accelerator"))
        or any(
            _DEVICE.fullmatch(str(string.value))
            for device in ("cuda", "hpu", "gpu")
            for string in index.strings(device)
        )
        or any(_may_be_device(module, keyword.value) for keyword in index.keywords("device"))
        or any(
            isinstance(call.func, ast.Attribute)
            and bool(call.args)
            and _may_be_device(module, call.args[0])
            for call in index.calls("to")
        )
        or _names_a_device(module)
        or bool(_packages(module) & _DRIVERS)
    )


def says_cpu(module: Module) -> bool:
    """Does the file choose the CPU: ``CPUEngine()``, ``Accelerator(cpu=True)``, ``device="cpu"``?"""
    index = module.index
    return (
        any(index.calls(written) for written in sorted(words_with(module, "CPU")))
        or any(module.constant(keyword.value) is True for keyword in index.keywords("cpu"))
        or any(module.constant(keyword.value) == "cpu" for keyword in index.keywords("device"))
    )


def is_of_torch(module: Module) -> bool:
    """Is what the file trains torch's, as far as its imports show?"""
    packages = _packages(module)
    return "torch" in packages or not packages & _OTHER_FRAMEWORKS


def _packages(module: Module) -> set[str]:
    return {
        binding.qualified.split(".", maxsplit=1)[0]
        for binding in module.import_bindings
        if binding.qualified
    }


def _names_a_device(module: Module) -> bool:
    """Does the file call, or read from another object, what is named for a device?"""
    named = (
        written
        for part in ("cuda", "gpu", "hpu", "device", "Cuda", "Gpu", "GPU")
        for written in words_with(module, part)
        if _NAMED.search(written)
    )
    return any(
        module.index.attributes(written) or module.index.calls(written) for written in sorted(named)
    )


def _may_be_device(module: Module, node: ast.expr) -> bool:
    """Is ``node`` something called a device whose value the file does not fix?"""
    for value in module.values(node):
        if _LABEL.search(word(value.left if isinstance(value, ast.BinOp) else value)):
            return True
        if (
            isinstance(value, ast.Call)
            and value.args
            and module.qualified(value.func) == "torch.device"
            and module.constant(value.args[0]) is None
        ):
            return True
    return False
