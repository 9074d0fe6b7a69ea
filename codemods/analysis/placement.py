"""Whether a file puts anything on a device."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.module import Module, once
from hpushim.patterns import lazily
from hpushim.pycode.walk import walk

from .names import FRAMEWORKS, is_made_of_torch, packages, word, words_with
from .project_facts import DEVICE_CHOSEN, FRAMEWORKS_USED

#: What a project with a device has in some file.
DEVICES = ("cuda", "hpu")
_DEVICE = lazily(r"(cuda|hpu|gpu)(:\d+)?")
_LABEL = lazily(r"dev|gpu|rank", re.I)
#: Functions, options and attributes that are named for a device: ``move_to_cuda``, ``args.n_gpu``.
_NAMED = lazily(r"(^|_)(cuda|gpus?|hpus?)(_|$)|(to|move|put|get|on|map|select)_?(\w*_)?device|Gpu(s|_|$)|GPU|Cuda")  # fmt: skip
#: What only runs where there is a device of some kind.
_DRIVERS = frozenset(["accelerate", "deepspeed", "apex"])


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
        or any(may_be_device(module, keyword.value) for keyword in index.keywords("device"))
        or any(
            isinstance(call.func, ast.Attribute)
            and bool(call.args)
            and may_be_device(module, call.args[0])
            for call in index.calls("to")
        )
        or any(
            isinstance(name.ctx, ast.Load) and may_be_device(module, name)
            for name in index.names("device")
        )
        or any(
            call.args
            and module.qualified(call.func) == "torch.device"
            and not _is_cpu(module, call)
            for call in index.calls("device")
        )
        or _names_a_device(module)
        or bool(module.view(packages) & _DRIVERS)
    )


def _says_cpu(module: Module) -> bool:
    """Does the file choose the CPU: ``CPUEngine()``, ``Accelerator(cpu=True)``, ``device="cpu"``?"""
    index = module.index
    return (
        any(index.calls(written) for written in sorted(words_with(module, "CPU")))
        or any(module.constant(keyword.value) is True for keyword in index.keywords("cpu"))
        or any(module.constant(keyword.value) == "cpu" for keyword in index.keywords("device"))
    )


def is_of_torch(module: Module) -> bool:
    """Is what the file trains torch's? Where it imports neither torch nor what is made of it, the project's other files say."""
    imported = module.view(packages)
    if any(map(is_made_of_torch, imported)):
        return True
    if imported & FRAMEWORKS:
        return False
    used = module.project.names(FRAMEWORKS_USED.name)
    return "" in used if used or module.project.files else not imported


def trains_on_device(module: Module, *, engine: bool) -> bool:
    """Does the file train on a device: one that it or an ``engine`` chooses, or a file that it imports or that imports it?"""
    if not is_of_torch(module):
        return False
    if module.view(is_on_device):
        return True
    chosen = engine or module.project.reaches(DEVICE_CHOSEN.name, module.path)
    return chosen and not _says_cpu(module)


def stays_on_cpu(module: Module, function: ast.AST | None) -> bool:
    """Does a function have a device of its own, the CPU, and no other: ``device = torch.device("cpu")``, ``model.to(device)``?"""
    return function is not None and _places_on_cpu(module, function)


def reaches_a_device(module: Module) -> bool:
    """Does the file use a device, or another one of the project, in a rule that wants the texts of `DEVICES`?"""
    mentions = module.project.mentions
    return module.view(is_on_device) or not (mentions or frozenset()).isdisjoint(DEVICES)


@once
def _places_on_cpu(module: Module, function: ast.AST) -> bool:
    places: list[ast.expr] = []
    for part in walk(function):
        if isinstance(part, ast.Attribute) and part.attr in ("cuda", "hpu"):
            return False
        if isinstance(part, ast.Call):
            places += [keyword.value for keyword in part.keywords if keyword.arg == "device"]
            if isinstance(part.func, ast.Attribute) and part.func.attr == "to":
                places += [each for each in part.args[:1] if not (module.qualified(each) or "").startswith("torch.")]  # fmt: skip
    names = [place for place in places if isinstance(place, ast.Name) and _is_called_device(place)]
    if not names or any(binding.kind == "param" for name in names for binding in module.bindings(name)):  # fmt: skip
        return False
    return all(_is_cpu(module, value) for place in places for value in module.values(place))


def _names_a_device(module: Module) -> bool:
    """Does the file call, or read from another object, what is named for a device?"""
    named = (
        written
        for part in ("cuda", "gpu", "hpu", "device", "Cuda", "Gpu", "GPU")
        for written in words_with(module, part)
        if _NAMED.search(written)
    )
    index = module.index
    return bool(index.keywords("device_ids")) or any(
        index.attributes(written) or index.calls(written) or index.keywords(written)
        for written in sorted(named)
    )


def may_be_device(module: Module, node: ast.expr) -> bool:
    """Is ``node`` something called a device that is not surely the CPU, or of another backend?"""
    named = _is_called_device(node)
    for value in module.values(node):
        if _is_cpu(module, value):
            continue
        if named or _is_called_device(value):
            return True
        if isinstance(value, ast.Call) and module.qualified(value.func) == "torch.device":
            return True
    return False


def _is_called_device(node: ast.expr) -> bool:
    return _LABEL.search(word(node.left if isinstance(node, ast.BinOp) else node)) is not None


def _is_cpu(module: Module, value: ast.expr) -> bool:
    """``"cpu"``, ``torch.device("cpu")``; a device of XLA marks its own steps."""
    if isinstance(value, ast.Call):
        name = module.qualified(value.func) or ""
        if name.startswith("torch_xla."):
            return True
        value = value.args[0] if name == "torch.device" and value.args else value
    text = module.constant(value)
    return isinstance(text, str) and not _DEVICE.match(text)
