"""What kind of value an expression is: surely a tensor or a torch module, by how it is made or how it is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hpushim.engine.python.walk import walk

from .names import word

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module

_MODULE_BASES = re.compile(r"(^|\.)(Module|LightningModule|ModuleList|Sequential|PreTrainedModel)$")
_MODULE_METHODS = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "state_dict",
        "load_state_dict",
        "forward",
        "zero_grad",
        "register_buffer",
        "requires_grad_",
        "children",
        "named_modules",
        "modules",
    ]
)
_TENSOR_METHODS = frozenset(
    [
        *(
            "size",
            "dim",
            "view",
            "reshape",
            "unsqueeze",
            "squeeze",
            "permute",
            "transpose",
            "contiguous",
        ),
        *(
            "detach",
            "backward",
            "item",
            "float",
            "long",
            "half",
            "double",
            "numel",
            "requires_grad",
        ),
        *(
            "masked_fill",
            "masked_fill_",
            "expand",
            "repeat",
            "mean",
            "sum",
            "argmax",
            "numpy",
            "is_cuda",
        ),
        *(
            "dtype",
            "data_ptr",
            "grad",
            "cpu",
            "tolist",
            "fill_",
            "zero_",
            "copy_",
            "clone",
            "chunk",
            "t",
        ),
        *(
            "gather",
            "scatter_",
            "matmul",
            "mm",
            "bmm",
            "eq",
            "ne",
            "gt",
            "lt",
            "type_as",
            "clamp",
            "norm",
        ),
        *(
            "index_select",
            "ndim",
            "add_",
            "mul_",
            "div_",
            "sub_",
            "softmax",
            "sqrt",
            "abs",
            "flatten",
        ),
    ]
)
_TENSOR_ATTRIBUTES = frozenset(["data", "grad", "weight", "bias", "T", "mT", "real", "imag"])
_NOT_VALUES = ("torch.cuda.", "torch.utils.", "torch.optim.", "torch.distributed.", "torch.backends.")  # fmt: skip
_VALUES_ANYWAY = ("torch.nn.parallel.", "torch.cuda.FloatTensor", "torch.distributed.fsdp.Fully")


def is_module_class(module: Module, node: ast.ClassDef) -> bool:
    """Is the class a torch module, as far as its bases say?"""
    for base in node.bases:
        name = module.qualified(base) or ""
        if _MODULE_BASES.search(name):
            return True
        if isinstance(base, ast.Name):
            for binding in module.bindings(base):
                inner = binding.node
                if isinstance(inner, ast.ClassDef) and inner is not node:
                    return is_module_class(module, inner)
    return False


def local_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class of this file that a name refers to."""
    if isinstance(node, ast.Name):
        for binding in module.bindings(node):
            if isinstance(binding.node, ast.ClassDef):
                return binding.node
    return None


def enclosing_class(module: Module, node: ast.AST) -> ast.ClassDef | None:
    """The class whose method ``node`` stands in."""
    return next((a for a in module.ancestors(node) if isinstance(a, ast.ClassDef)), None)


def proven(module: Module, node: ast.AST | None, depth: int = 8) -> bool:
    """Is the expression surely a tensor or a torch module?"""
    if node is None or depth == 0:
        return False
    again = depth - 1
    if isinstance(node, ast.Call):
        return _proven_call(module, node, again)
    if isinstance(node, ast.Name):
        if node.id == "self":
            owner = enclosing_class(module, node)
            return owner is not None and is_module_class(module, owner)
        values = module.values(node)
        return all(v is not node and proven(module, v, again) for v in values)
    if isinstance(node, ast.Attribute):
        if node.attr in _TENSOR_ATTRIBUTES and proven(module, node.value, again):
            return True
        if isinstance(node.value, ast.Name):
            stored = [v for v in module.index.stored(node.attr) if not _reads(v, node.attr)]
            return bool(stored) and all(proven(module, v, again) for v in stored)
        return False
    if isinstance(node, ast.BinOp):
        return proven(module, node.left, again) or proven(module, node.right, again)
    if isinstance(node, (ast.Subscript, ast.Await)):
        return proven(module, node.value, again)
    if isinstance(node, ast.IfExp):
        return proven(module, node.body, again) and proven(module, node.orelse, again)
    return False


def _reads(value: ast.expr, attribute: str) -> bool:
    """Does a value start from the attribute that it is stored under (``self.x = self.x.float()``)?"""
    return any(isinstance(p, ast.Attribute) and p.attr == attribute for p in walk(value))


def _proven_call(module: Module, node: ast.Call, depth: int) -> bool:
    func = node.func
    if isinstance(func, ast.Name) and func.id == "super":
        owner = enclosing_class(module, node)
        return owner is not None and is_module_class(module, owner)
    name = module.qualified(func)
    if name and name.startswith(("torch.", "torchvision.models.", "timm.create_model")):
        return name.startswith(_VALUES_ANYWAY) or not name.startswith(_NOT_VALUES)
    owner = local_class(module, func)
    if owner is not None:
        return is_module_class(module, owner)
    if isinstance(func, ast.Attribute):
        if func.attr in ("from_pretrained",):
            return True
        return proven(module, func.value, depth)
    return False


class _Reads:
    """The attributes that a file reads from names and attributes of some spelling; each spelling is looked up once."""

    def __init__(self, module: Module) -> None:
        self._parent = module.parent
        self._index = module.index
        self._known: dict[str, frozenset[str]] = {}

    def __call__(self, name: str) -> frozenset[str]:
        known = self._known.get(name)
        if known is None:
            owners: Iterable[ast.expr] = (*self._index.names(name), *self._index.attributes(name))
            above = [(owner, self._parent(owner)) for owner in owners]
            known = self._known[name] = frozenset(
                read.attr for owner, read in above if isinstance(read, ast.Attribute)
            )
        return known


def used_as_torch(module: Module, node: ast.expr) -> bool:
    """Does the file use the name, or the attribute, as only tensors and torch modules are used?

    A method that the project defines somewhere says nothing: it may be the project's own object.
    """
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    read = module.view(_Reads)(word(node)) & (_MODULE_METHODS | _TENSOR_METHODS)
    return any(not defines_method(module, method) for method in read)


def becomes_torch(module: Module, call: ast.Call) -> bool:
    """Is the result of the call used as only tensors and torch modules are used?"""
    parent = module.parent(call)
    if isinstance(parent, ast.Attribute):
        known = parent.attr in _MODULE_METHODS | _TENSOR_METHODS
        return known and not defines_method(module, parent.attr)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return used_as_torch(module, parent.targets[0])
    return False


def defines_method(module: Module, name: str) -> bool:
    """Does a class of the project, or of this file, define a method of this name?"""
    if name in module.project.methods:
        return True
    return any(
        isinstance(node, ast.FunctionDef)
        and isinstance(module.parent(node), ast.ClassDef)
        and not _is_property(node)
        for node in module.index.definitions(name)
    )


def _is_property(node: ast.FunctionDef) -> bool:
    names = [word(decorator) for decorator in node.decorator_list]
    return any(name.endswith("property") or name in ("setter", "getter") for name in names)
