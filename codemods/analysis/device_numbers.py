"""Numbers of devices: ``rank``, ``args.gpu``, ``int(os.environ["LOCAL_RANK"])``, ``rank % device_count()``."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.module import Module
from hpushim.pycode.values import Values
from hpushim.pycode.walk import walk

from ..edits.at_hand import unwrapped
from .device_texts import OTHER_NAMED, device_name, is_hpu, other_device, read
from .names import word

_RANK = re.compile(r"(^|_)(rank|gpu|gpus|gpu_?ids?|gpu_?idx|gpu_?index|device_?ids?|dev_?id|cuda_?ids?|local_?rank)$")  # fmt: skip
_TYPES = {"torch.device", "builtins.str"}
_COUNTS = ("torch.cuda.device_count", "torch.hpu.device_count")
_CURRENT = (
    "torch.cuda.current_device",
    "torch.hpu.current_device",
    "torch.accelerator.current_device_index",
)
_SETS = ("torch.cuda.set_device", "torch.hpu.set_device", "torch.accelerator.set_device_index")


def is_device_number(module: Module, node: ast.expr | None) -> bool:
    """Is the expression the number of a device: an integer, or a variable named like one?"""
    if node is None:
        return False
    value = module.constant(node)
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    inner = node
    while isinstance(inner, ast.Subscript):
        inner = inner.value
    if isinstance(inner, ast.Call):
        called = module.qualified(inner.func) or ""
        last = called.rpartition(".")[2] or getattr(inner.func, "attr", "")
        return called in _CURRENT or bool(re.search(r"(^|_)rank$", last))
    if not _RANK.search(word(inner).lower()):
        values = module.view(Values).origins(node) if isinstance(node, ast.Name) else []
        others = [value for value in values if not _counts_devices(module, value)]
        return len(others) < len(values) and all(
            isinstance(other, ast.expr) and _names_device(unwrapped(module, other))
            for other in others
        )
    return inner is not node or not _holds_device(module, inner)


def device_or_number(module: Module, node: ast.expr) -> str | None:
    """Where a name of a device, or nothing, represents the CPU: ``"cpu"`` in ``gpu if gpu is not None else "cpu"``."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or not module.matches(OTHER_NAMED):
        return None  # most files: no need to follow each name
    given = _given(module, node)
    found = next((part for part in given if other_device(unwrapped(module, part))), None)
    if found is None:
        return None
    if _RANK.search(word(node).lower()):
        number = not any(read(part) is not None for part in given)
    else:
        number = any(_counts_devices(module, part) for part in given)
    return module.source(found) if number else None


def is_other_device_number(module: Module, node: ast.expr) -> bool:
    """Is the expression the number of a device that is not plainly 0?"""
    return is_device_number(module, node) and module.constant(node) != 0


def is_current(module: Module, node: ast.expr) -> bool:
    """``torch.cuda.current_device()``: the number of the device that the process has set."""
    return isinstance(node, ast.Call) and module.qualified(node.func) in _CURRENT


def sets_device(module: Module) -> bool:
    """Does the file set the device of its process?"""
    return any(
        module.qualified(name) in _SETS
        for written in ("set_device", "set_device_index")
        for name in (*module.index.attributes(written), *module.index.names(written))
    )


def _counts_devices(module: Module, node: ast.AST) -> bool:
    """``rank % device_count()``, ``int(os.environ["LOCAL_RANK"])``, a parameter ``rank``: the number of a device, whatever its name."""
    if isinstance(node, ast.arg):
        return bool(_RANK.search(node.arg.lower())) and not _is_type_of_devices(module, node.annotation)  # fmt: skip
    if isinstance(node, ast.Attribute) and _RANK.search(node.attr.lower()):
        return not _holds_device(module, node)
    if not isinstance(node, ast.expr):
        return False
    if isinstance(node, ast.Call) and module.qualified(node.func) == "torch.cuda.current_device":
        return True
    parts = list(walk(node))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return any(isinstance(p, ast.Attribute) and module.qualified(p) in _COUNTS for p in parts)
    integer = isinstance(node, ast.Call) and module.qualified(node.func) == "builtins.int"
    return integer and any(isinstance(p, ast.Constant) and p.value == "LOCAL_RANK" for p in parts)


def _names_device(node: ast.AST) -> bool:
    """``"cuda"``, ``f"cuda:{rank}"``, ``"hpu"``: the text of the device that a number beside it means as well."""
    return is_hpu(node) or read(node) is not None


# -- devices under the name of a device -------------------------------------------------------


def _holds_device(module: Module, node: ast.expr) -> bool:
    """Is a device kept under the name: ``rank = torch.device("cuda")``, ``def run(gpu: str)``, ``run("cpu")``?"""
    if any(_is_device(module, part) for part in _given(module, node)):
        return True
    if isinstance(node, ast.Attribute):
        declared = module.view(Values).options.declared(node.attr)
        types = [
            keyword.value for call in declared for keyword in call.keywords if keyword.arg == "type"
        ]
        return any(word(kind) == "str" for kind in types)
    bound = module.bindings(node) if isinstance(node, ast.Name) else []
    notes = [binding.node.annotation for binding in bound if isinstance(binding.node, ast.arg)]
    return any(_is_type_of_devices(module, annotation) for annotation in notes)


def _is_device(module: Module, part: ast.expr) -> bool:
    if read(part) is not None or isinstance(module.constant(part), str):
        return True
    if isinstance(part, ast.Attribute):  # x.device
        return device_name(part.attr) and not _RANK.search(part.attr.lower())
    return isinstance(part, ast.Call) and module.qualified(part.func) == "torch.device"


def _is_type_of_devices(module: Module, annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    text = module.constant(annotation)
    names = {module.qualified(part) for part in walk(annotation) if isinstance(part, (ast.Name, ast.Attribute))}  # fmt: skip
    return bool(names & _TYPES) or text in ("str", "torch.device")


def _given(module: Module, node: ast.expr) -> list[ast.expr]:
    """What the file gives to a name or an attribute in the end."""
    origins = module.view(Values).origins(node)
    return [part for part in origins if isinstance(part, ast.expr) and part is not node]
