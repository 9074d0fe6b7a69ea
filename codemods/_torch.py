"""What an expression is in torch's terms: its dotted name, whether it is surely a tensor or a module."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpushim.engine.scope import Binding
    from hpushim.engine.syntax import Module

#: Packages with a ``cuda`` or a ``device`` of their own that is not torch's.
FOREIGN = frozenset(
    [
        "cudf",
        "cugraph",
        "cuml",
        "cupy",
        "cupyx",
        "cv2",
        "faiss",
        "jax",
        "jaxlib",
        "lightgbm",
        "llama_cpp",
        "mxnet",
        "numba",
        "nvidia",
        "onnxruntime",
        "ort",
        "paddle",
        "pycuda",
        "pynvml",
        "rmm",
        "spacy",
        "taichi",
        "tensorflow",
        "tensorrt",
        "tf",
        "thinc",
        "triton",
        "trt",
        "tvm",
        "warp",
        "xgboost",
        "catboost",
        "chainer",
        "theano",
        "ctranslate2",
        "faster_whisper",
    ]
)
_LOADERS = ("importorskip", "import_module", "__import__", "try_import", "LazyLoader")
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


def dotted(module: Module, node: ast.AST | None) -> str | None:
    """The dotted name that an expression means, also when ``torch`` came from ``importorskip``,
    ``__import__`` or from elsewhere (an earlier notebook cell, a star import)."""
    name = module.qualified(node)
    if name is not None:
        if name.startswith("builtins.torch") and (name == "builtins.torch" or name[14] == "."):
            return name.removeprefix("builtins.")
        return name
    if not _loads(module):
        return None
    tail: list[str] = []
    while isinstance(node, ast.Attribute):
        tail.append(node.attr)
        node = node.value
    base = _loaded(module, node)
    return ".".join([base, *reversed(tail)]) if base else None


def speaks(module: Module, node: ast.expr) -> bool:
    """May a name or a chain of attributes have a dotted name that is no builtin? Rules most of them out quickly."""
    while isinstance(node, ast.Attribute):
        node = node.value
    named = isinstance(node, ast.Name) and (node.id in module.namesakes or node.id == "torch")
    return named or _loads(module)


def references(module: Module) -> dict[ast.expr, str]:
    """Every name and every whole chain of attributes with a dotted name, builtins aside, and that name."""
    found: dict[ast.expr, str] | None = module.notes.get("references")
    if found is None:
        found = {}
        parent = module.parent
        for node in module.nodes:
            if isinstance(node, (ast.Attribute, ast.Name)):
                if isinstance(parent(node), ast.Attribute) or not speaks(module, node):
                    continue
                name = dotted(module, node)
                if name is not None and not name.startswith("builtins."):
                    found[node] = name
        module.notes["references"] = found
    return found


def _loads(module: Module) -> bool:
    """Does the file name a function that loads modules?"""
    loads: bool | None = module.notes.get("loads modules by name")
    if loads is None:
        loads = any(name.encode() in module.markers for name in _LOADERS)
        module.notes["loads modules by name"] = loads
    return loads


def _loaded(module: Module, node: ast.AST | None, depth: int = 4) -> str | None:
    """``torch`` for ``__import__("torch")`` and for a name bound to such a call."""
    if isinstance(node, ast.Name):
        if not depth:
            return None  # names that are assigned to each other
        bases = {_loaded(module, b.value, depth - 1) or b.qualified for b in module.bindings(node)
                 if not (b.kind == "assign" and isinstance(b.value, ast.Constant))}  # fmt: skip
        return next(iter(bases)) if len(bases) == 1 else None
    if isinstance(node, ast.Call) and node.args:
        func = node.func
        called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        text = module.constant(node.args[0])
        if called in _LOADERS and isinstance(text, str):
            return text
    return None


def root(node: ast.AST) -> ast.AST:
    """What a chain of attributes, calls and subscripts starts with."""
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Await)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return node


def foreign(module: Module, node: ast.AST) -> bool:
    """Does the expression belong to a library whose devices are not torch's?"""
    base = root(node)
    if not isinstance(base, ast.Name):
        return False
    found = module.bindings(base)
    return bool(found) and all(_foreign_binding(module, binding, base.id) for binding in found)


def _foreign_binding(module: Module, binding: Binding, name: str) -> bool:
    if binding.qualified:
        return binding.qualified.split(".")[0] in FOREIGN
    if binding.kind != "assign" or not isinstance(binding.value, (ast.Call, ast.Attribute)):
        return False
    inner = root(binding.value)
    return isinstance(inner, ast.Name) and inner.id != name and foreign(module, inner)


def is_module_class(module: Module, node: ast.ClassDef) -> bool:
    """Is the class a torch module, as far as its bases say?"""
    for base in node.bases:
        name = dotted(module, base) or ""
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


def attribute_values(module: Module, name: str) -> list[ast.expr]:
    """Everything that the file assigns to an attribute of this name, on whatever object."""
    index: dict[str, list[ast.expr]] | None = module.notes.get("attribute values")
    if index is None:
        index = {}
        for node in module.nodes:
            if isinstance(node, ast.Assign):
                pairs: list[tuple[ast.expr, ast.expr | None]] = [
                    (t, node.value) for t in node.targets
                ]
            elif isinstance(node, ast.AnnAssign):
                pairs = [(node.target, node.value)]
            else:
                continue
            for target, value in pairs:
                if isinstance(target, ast.Attribute) and value is not None:
                    index.setdefault(target.attr, []).append(value)
        module.notes["attribute values"] = index
    return index.get(name, [])


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
            stored = [v for v in attribute_values(module, node.attr) if not _reads(v, node.attr)]
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
    return any(isinstance(p, ast.Attribute) and p.attr == attribute for p in ast.walk(value))


def _proven_call(module: Module, node: ast.Call, depth: int) -> bool:
    func = node.func
    if isinstance(func, ast.Name) and func.id == "super":
        owner = enclosing_class(module, node)
        return owner is not None and is_module_class(module, owner)
    name = dotted(module, func)
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


def used_as_torch(module: Module, node: ast.expr) -> bool:
    """Does the file use the name, or the attribute, as only tensors and torch modules are used?

    A method that the project defines somewhere says nothing: it may be the project's own object.
    """
    name = getattr(node, "attr", getattr(node, "id", None))
    if not isinstance(node, (ast.Name, ast.Attribute)) or name is None:
        return False
    found: dict[str, set[str]] | None = module.notes.get("attributes read")
    if found is None:
        found = {}
        for part in module.nodes:
            if isinstance(part, ast.Attribute) and isinstance(
                part.value, (ast.Name, ast.Attribute)
            ):
                owner = getattr(part.value, "attr", getattr(part.value, "id", ""))
                found.setdefault(owner, set()).add(part.attr)
        module.notes["attributes read"] = found
    read = found.get(name, set()) & (_MODULE_METHODS | _TENSOR_METHODS)
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
        isinstance(binding.node, ast.FunctionDef)
        and isinstance(module.parent(binding.node), ast.ClassDef)
        and not _is_property(binding.node)
        for binding in module.bindings_of(name)
    )


def _is_property(node: ast.FunctionDef) -> bool:
    names = [getattr(d, "attr", getattr(d, "id", "")) for d in node.decorator_list]
    return any(name.endswith("property") or name in ("setter", "getter") for name in names)
