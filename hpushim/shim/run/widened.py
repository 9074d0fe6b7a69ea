"""What rewritten code calls where a comparison is more than ``==`` with a constant: an HPU counts as CUDA.

Each function does what the operator does, and takes ``hpu`` for ``cuda``, with or without an index, where that makes
the answer the one that CUDA would give. Plain Python, so that torch.compile reads through it.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Callable
from types import GeneratorType, SimpleNamespace
from typing import Any

_AS_CUDA = {"hpu": "cuda", "hpu:0": "cuda:0"}
_HELD = (list, tuple, set, frozenset)
_HPU = re.compile(r"(?<![A-Za-z0-9])hpu(?![A-Za-z0-9])")
_TYPE = re.compile(r"\bHPU(\w+)Type\b")


def as_cuda(value: Any) -> Any:
    """A device's type or text as CUDA would have it, also inside a longer text; a collection or a record of such texts; else as it is."""
    if isinstance(value, str):
        if value in _AS_CUDA:
            return _AS_CUDA[value]
        if "HPU" in value:  # torch's errors name the types of tensors
            value = _TYPE.sub(r"torch.cuda.\1Tensor", value)
        return _HPU.sub("cuda", value) if "hpu" in value else value
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(as_cuda, value))
    if isinstance(value, _HELD) and type(value).__module__ == "builtins":
        return type(value)(as_cuda(one) for one in value)
    if isinstance(value, dict):
        return {as_cuda(key): as_cuda(held) for key, held in value.items()}
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**as_cuda(vars(value)))
    if isinstance(value, (map, filter, GeneratorType)):
        return map(as_cuda, value)
    if _is_record(value):
        other = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(other, field.name, as_cuda(getattr(value, field.name)))
        return other
    return value


def _is_record(value: Any) -> bool:
    """Is it an object of a dataclass that compares by its fields?"""
    params = getattr(type(value), "__dataclass_params__", None)
    return params is not None and params.eq


class _Shown(str):
    """What a device shows as, which has another ``repr`` than its text."""

    seen: str

    def __repr__(self) -> str:
        return self.seen


def text_as_cuda(value: Any) -> Any:
    """As :func:`as_cuda`; a device is what it would show as on CUDA."""
    if getattr(value, "type", None) != "hpu":
        return as_cuda(value)
    text = _Shown(as_cuda(str(value)))
    text.seen = as_cuda(repr(value))
    return text


def same(left: Any, right: Any) -> Any:
    """``left == right``; every CUDA device is the HPU of this process."""
    if isinstance(left, str) and isinstance(right, str):
        if left == right or _is_hpus(left, right) or _is_hpus(right, left):
            return True
        return as_cuda(left) == as_cuda(right) if "hpu" in left or "hpu" in right else False
    if any(isinstance(left, kind) and isinstance(right, kind) for kind in (_HELD, dict, SimpleNamespace)) or _is_record(left):  # fmt: skip
        return left == right or as_cuda(left) == as_cuda(right)
    return left == right


def _is_hpus(hpu: str, cuda: str) -> bool:
    """Whether the first is the HPU and the second a CUDA device, both with an index or both without."""
    if hpu == "hpu":
        return cuda == "cuda"
    return hpu == "hpu:0" and cuda.startswith("cuda:") and cuda[5:].isdigit()


def among(value: Any, collection: Any) -> bool:
    """``value in collection``."""
    if value in collection:
        return True
    if not isinstance(value, (str, *_HELD, dict, SimpleNamespace)) and not _is_record(value):
        return False
    return as_cuda(value) in collection or (
        not isinstance(collection, str) and any(same(value, one) for one in collection)
    )


def holds(collection: Any, text: Any) -> bool:
    """``text in collection``, where the collection is a text, or holds devices' texts, and the text names CUDA."""
    if isinstance(collection, (map, filter, GeneratorType)):
        return any(same(one, text) for one in collection)
    if text in collection:
        return True
    if not isinstance(text, str):
        return False
    if isinstance(collection, str):
        return text in as_cuda(collection)
    return text.startswith("cuda") and ("hpu:0" if text[4:5] == ":" else "hpu") in collection


def lookup(table: Any, key: Any) -> Any:
    """``table[key]``: a table that has no entry for HPU has CUDA's, and one that has none for CUDA has HPU's."""
    return table[entry(table, key)]


def looked_up(table: Any, method: str, key: Any, *args: Any, **kwargs: Any) -> Any:
    """``table.get(key, …)`` and its like."""
    return getattr(table, method)(entry(table, key), *args, **kwargs)


def entry(table: Any, key: Any) -> Any:
    """The key to look up: the other device's where the table has none for this one."""
    held = isinstance(key, tuple) or _is_record(key)
    if not (held or isinstance(key, str)) or not hasattr(table, "__contains__") or key in table:
        return key
    if isinstance(key, str) and key.startswith("cuda"):
        other: Any = "hpu:0" if key[4:5] == ":" else "hpu"
    else:
        other = as_cuda(key)
    if held and other == key and isinstance(table, dict):
        return next((one for one in table if same(one, key)), key)
    return other if other != key and other in table else key


def attribute(owner: Any, name: Any, *default: Any) -> Any:
    """``getattr(owner, name)``: of an owner that has none for HPU, CUDA's; of torch ``torch.cuda``, where more is answered."""
    return getattr(owner, _attribute(owner, name), *default)


def has_attribute(owner: Any, name: Any) -> bool:
    """``hasattr(owner, name)``."""
    return hasattr(owner, _attribute(owner, name))


def _attribute(owner: Any, name: Any) -> Any:
    other = as_cuda(name) if isinstance(name, str) else name
    if other == name or not hasattr(owner, other):
        return name
    return other if getattr(owner, "__name__", "") == "torch" or not hasattr(owner, name) else name


class shown_as_cuda:
    """A function that is given a device's text as CUDA would have it. A class, so that workers may be sent one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self._function(*map(as_cuda, args), **kwargs)


def executed(text: Any) -> Any:
    """What ``exec`` is given: of a text that names CUDA its code, rewritten; else the same."""
    from hpushim.shim.run import compiling

    return compiling.of_text(text, sys._getframe(1).f_code.co_flags)
