"""Is an expression a tensor that may lie on the card? Told by how it is made and by what only tensors are used for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .kinds import enclosing_class, is_module_class, proven
from .names import is_none, root
from .placement import is_on_device

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

#: What brings a value to the host.
_TO_HOST = frozenset(["numpy", "cpu", "tolist", "item"])
#: Attributes that tensors have and arrays of numpy have not.
_TENSORS_ALONE = frozenset(
    [
        *("unsqueeze", "permute", "contiguous", "detach", "backward", "float", "long", "half"),
        *("numel", "requires_grad", "masked_fill", "masked_fill_", "expand", "cpu", "cuda"),
        *("is_cuda", "device", "new_zeros", "new_ones", "new_full", "type_as", "clamp", "clamp_"),
        *("index_select", "softmax", "log_softmax", "bmm", "gather", "scatter_", "zero_", "fill_"),
        *("grad", "sigmoid", "expand_as", "view_as", "bool", "topk", "to", "chunk", "bernoulli_"),
        *(
            "masked_select",
            "masked_scatter",
            "index_add",
            "index_add_",
            "index_fill_",
            "scatter_add_",
        ),
    ]
)
#: Methods that only arrays of numpy, matrices of scipy and tables of pandas have.
_OF_ARRAYS = frozenset(["astype", "todense", "toarray", "tocsr", "tocoo", "to_numpy"])
_ARRAYS = frozenset(["numpy", "pandas", "scipy", "cv2", "PIL", "sklearn", "cupy", "tensorflow", "jax"])  # fmt: skip
#: Functions of torch that take or give no tensor of the card.
_OTHERS = ("torch.utils.", "torch.from_numpy", "torch.distributed.", "torch.nn.ModuleList")
#: Functions of torch that give several tensors.
_PAIRS = frozenset(f"torch.{name}" for name in ("sort", "topk", "max", "min", "median", "mode", "kthvalue", "unique", "split", "chunk", "unbind", "meshgrid"))  # fmt: skip
_NO_TENSORS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Constant, ast.JoinedStr, ast.Tuple, ast.Lambda)  # fmt: skip


def is_tensor(module: Module, node: ast.expr) -> bool:
    """Is ``node`` a tensor that may be on the card?

    In the methods of a torch module what is given is one, unless something else is seen; elsewhere the file must use a
    device, and the value be made by torch or be used as nothing else is.
    """
    if is_other(module, node):
        return False
    in_module = is_in_module(module, node)
    if not in_module and not module.view(is_on_device):
        return False
    if proven(module, node):
        return True
    base = root(node)
    if not isinstance(base, ast.Name):
        return in_module
    if base.id == "self" and node is not base:
        return isinstance(node, ast.Attribute) and _has_use(module, module.index.attributes(node.attr))  # fmt: skip
    if in_module and _is_parameter(module, base):
        return not _is_text(module, base)
    return _has_use(module, _uses(module, base))


def is_in_module(module: Module, node: ast.AST) -> bool:
    """Does ``node`` stand in a method of a torch module?"""
    owner = enclosing_class(module, node)
    return owner is not None and is_module_class(module, owner)


def is_other(module: Module, node: ast.expr, depth: int = 6) -> bool:
    """Is the value surely no tensor of the card: an array, a list, something read to the host?"""
    if depth == 0:
        return False
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        if not isinstance(node, ast.Call):
            node = node.value
            continue
        if _of_arrays(module, node.func):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in _TO_HOST | _OF_ARRAYS:
            return True
        node = node.func
        if isinstance(node, ast.Name):
            return False
    if isinstance(node, _NO_TENSORS):
        return True
    if isinstance(node, ast.Name):
        values = [value for value in module.values(node) if value is not node]
        return _of_arrays(module, node) or any(
            is_other(module, value, depth - 1) for value in values if not is_none(value)
        )
    return False


def _of_arrays(module: Module, node: ast.expr) -> bool:
    return (module.qualified(node) or "").partition(".")[0] in _ARRAYS


def _is_parameter(module: Module, name: ast.Name) -> bool:
    return any(binding.kind == "param" for binding in module.bindings(name))


def _uses(module: Module, name: ast.Name) -> list[ast.Name]:
    """The uses of the same name in the same function."""
    around = module.function(name)
    return [other for other in module.index.names(name.id) if module.function(other) is around]


def _has_use(module: Module, nodes: list[ast.Name] | list[ast.Attribute]) -> bool:
    return any(_is_tensors_use(module, node) for node in nodes)


def _is_tensors_use(module: Module, node: ast.expr) -> bool:
    """Is ``node`` read as a tensor alone is, or handed to torch?"""
    parent = module.parent(node)
    if isinstance(parent, ast.Attribute):
        above = module.parent(parent)
        if parent.attr in ("size", "dim") and isinstance(above, ast.Call):
            return above.func is parent
        return parent.attr in _TENSORS_ALONE
    if isinstance(parent, ast.Call) and node in parent.args:
        name = module.qualified(parent.func) or ""
        return name.startswith("torch.") and not name.startswith(_OTHERS)
    if isinstance(parent, ast.Assign) and node in parent.targets:
        return proven(module, parent.value)
    above = module.parent(parent) if isinstance(parent, (ast.Tuple, ast.List)) else None
    if isinstance(above, ast.Assign) and parent in above.targets:
        made = above.value  # `values, indices = torch.sort(x)`
        return isinstance(made, ast.Call) and module.qualified(made.func) in _PAIRS
    return False


def _is_text(module: Module, name: ast.Name) -> bool:
    """Does a parameter say by its annotation that it is no tensor?"""
    for binding in module.bindings(name):
        note = getattr(binding.node, "annotation", None)
        if note is not None and "Tensor" not in module.source(note):
            return True
    return False
