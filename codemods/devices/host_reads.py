"""Values read back from the device in bfloat16, which numpy does not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Wants, Yield
from hpushim.pycode.walk import walk

from ..analysis.batches import loops
from ..analysis.kinds import is_in_module
from ..analysis.names import foreign, is_made_of_torch, word
from ..analysis.verdict import ask
from ..edits.arguments import called
from ..values.tensors import gives_tensor, makes_in_full

_SURE = ("autocast", ".half(")
_HALF = ("float16", "fp16", *_SURE)
_TYPES = ("float16", "bfloat16", "torch.half", "fp16=True")
#: What makes the dtype another one, or shows that it is none of floats.
_OTHER = frozenset(["float", "double", "int", "long", "bool", "byte", "short", "argmax", "argmin", "argsort", "nonzero", "round", "topk", "type"])  # fmt: skip
_ON_THE_WAY = frozenset(["cpu", "cuda", "hpu", "detach", "data", "clone", "squeeze", "contiguous", "view", "reshape", "permute", "transpose"])  # fmt: skip


class HostRead(Rule):
    """``x.cpu().numpy()`` under mixed precision."""

    HPU120 = Code("numpy-of-bfloat16", fix="unsafe")
    also = Wants(
        calls=("numpy",), required=("cuda", "device", ".to(", *_HALF), project=(*_SURE, *_TYPES)
    )

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        func = node.func
        if not isinstance(func, ast.Attribute) or node.args or node.keywords:
            return
        if _is_mixed(module) and not foreign(module, func) and _may_be_half(module, func.value) and not _is_computed_outside(module, func.value):  # fmt: skip
            yield self._numpy(module, func)

    def _numpy(self, module: Module, func: ast.Attribute) -> Found:
        return self.finding(
            func,
            "the code computes in bfloat16 on Gaudi, which NumPy does not support; convert "
            "floating-point tensors with `.float()` before `.numpy()`",
            fix=Rewrite("convert to float32", "unsafe", (called(func.value, ".float()"),)),
            row=ask(module, "torch.Tensor.numpy").row,
        )


def _is_mixed(module: Module) -> bool:
    """Does the file mention half precision? A type of numpy's is none of torch's."""
    index = module.index
    return (
        any(module.holds(text) for text in _SURE)
        or any(
            not (module.qualified(each) or "").startswith("numpy.")
            for name in ("float16", "bfloat16")
            for each in (*index.attributes(name), *index.names(name), *_own(module, name))
        )
        or (any(index.strings("fp16")) and _computes_so(module))
    )


def _computes_so(module: Module) -> bool:
    """Does anything of the project compute in half precision? An option alone may be off, or another package's."""
    mentions = module.project.mentions
    return mentions is None or not mentions.isdisjoint((*_SURE, *_TYPES))


def _own(module: Module, name: str) -> list[ast.Constant]:
    """The texts that name a dtype, without what other packages are given."""
    return [text for text in module.index.strings(name) if not _is_of_others(module, text)]


def _is_of_others(module: Module, text: ast.Constant) -> bool:
    """``whisperx.load_model(size, compute_type="float16")``."""
    keyword = module.parent(text)
    call = module.parent(keyword) if isinstance(keyword, ast.keyword) else keyword
    package = (module.qualified(call.func) or "").partition(".")[0] if isinstance(call, ast.Call) else ""  # fmt: skip
    return package not in {"", "builtins", *module.project.modules} and not is_made_of_torch(
        package
    )


def _is_computed_outside(module: Module, value: ast.expr) -> bool:
    """Does a model give the value in a function of which nothing runs under autocast, which is all half precision that the file has?"""
    function, regions = module.function(value), module.index.calls("autocast")
    if function is None or not regions or any(module.holds(text) for text in _HALF if text != "autocast"):  # fmt: skip
        return False
    made = [*_made(module, value)]
    if not made or any(each is None or module.function(each) is not function for each in made):
        return False
    for call in regions:
        block = next((a for a in module.ancestors(call) if isinstance(a, (ast.With, ast.AsyncWith))), None)  # fmt: skip
        if block is None or module.function(call) in (None, function) or is_in_module(module, call):
            return False
        if any(isinstance(part, ast.Call) and word(part.func) == function.name for part in walk(block)):  # fmt: skip
            return False
    return True


def _made(module: Module, value: ast.expr, depth: int = 4) -> Iterator[ast.Call | None]:
    """The calls that a value is a part of, other than tensors' own methods; None for what the function is given."""
    while isinstance(value, (ast.Attribute, ast.Subscript)) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and gives_tensor(value.func.attr)
    ):  # fmt: skip
        value = value.func if isinstance(value, ast.Call) else value.value
    if isinstance(value, ast.Call):
        yield value if not (module.qualified(value.func) or "").startswith("torch.") else None
        return
    given = [each for each in module.values(value) if each is not value] if depth else []
    for each in given:
        yield from _made(module, each, depth - 1)
    if not given:
        yield None


def _may_be_half(module: Module, value: ast.expr, moved: bool = False, depth: int = 4) -> bool:
    """Does a value come from the device as it was computed, as far as the chain of calls says, and what its name was given?"""
    while True:
        if isinstance(value, (ast.Compare, ast.BoolOp)):
            return False  # truth values
        if isinstance(value, ast.Call):
            if makes_in_full(module, value):
                return False  # whatever is added to it in place
            method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
            if method in _OTHER or (
                method == "to" and value.args and not moved and len(value.args) > 1
            ):
                return False
            moved |= method in ("cpu", "to")
            if method not in _ON_THE_WAY | {"to"} or not isinstance(value.func, ast.Attribute):
                return moved
            value = value.func.value
        elif isinstance(value, (ast.Attribute, ast.Subscript)):
            value = value.value
        else:
            return moved and not _is_whole(module, value, depth)


def _is_whole(module: Module, value: ast.expr, depth: int) -> bool:
    """Is a name given nothing but numbers of other kinds, as ``pred = logits.argmax(-1)``, or is it a part of the batch?"""
    if not isinstance(value, ast.Name) or depth == 0:
        return False
    given = [each for each in module.values(value) if each is not value]
    if given and all(not _may_be_half(module, each, True, depth - 1) for each in given):
        return True
    return any(
        value.id in loop.parts and any(above is loop.node for above in module.ancestors(value))
        for loop in module.view(loops)
    )
