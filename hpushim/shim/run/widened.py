"""What rewritten code calls where a comparison is more than ``==`` with a constant: an HPU counts as CUDA.

Each function does what the operator does, and takes ``hpu`` for ``cuda``, with or without an index, where that makes
the answer the one that CUDA would give. Plain Python, so that torch.compile reads through it.
"""

from __future__ import annotations

from typing import Any

_AS_CUDA = {"hpu": "cuda", "hpu:0": "cuda:0"}


def as_cuda(value: Any) -> Any:
    """A device's type or text as CUDA would have it; a collection of such texts; anything else as it is."""
    if isinstance(value, str):
        return _AS_CUDA.get(value, value)
    if isinstance(value, (set, frozenset, list, tuple)) and type(value).__module__ == "builtins":
        return type(value)(as_cuda(one) for one in value)
    return value


def same(left: Any, right: Any) -> Any:
    """``left == right``; every CUDA device is the HPU of this process."""
    if isinstance(left, str) and isinstance(right, str):
        return left == right or _is_hpus(left, right) or _is_hpus(right, left)
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
    if not isinstance(value, str) or value not in _AS_CUDA:
        return False
    if isinstance(collection, str):
        return _AS_CUDA[value] in collection
    return any(same(value, one) for one in collection)


def holds(collection: Any, text: Any) -> bool:
    """``text in collection``, where the collection is a device's text, or devices' texts, and the text names CUDA."""
    if text in collection:
        return True
    if isinstance(text, str) and text.startswith("cuda"):
        if isinstance(collection, str):
            return text.replace("cuda", "hpu", 1) in collection
        return any(same(one, text) for one in collection)
    return False


def lookup(table: Any, key: Any) -> Any:
    """``table[key]``: a table that has no entry for HPU has CUDA's."""
    return table[_entry(table, key)]


def looked_up(table: Any, method: str, key: Any, *args: Any, **kwargs: Any) -> Any:
    """``table.get(key, …)`` and its like."""
    return getattr(table, method)(_entry(table, key), *args, **kwargs)


def _entry(table: Any, key: Any) -> Any:
    """The key to look up: CUDA's where the table has none for HPU."""
    if not isinstance(key, str) or key not in _AS_CUDA or not hasattr(table, "__contains__"):
        return key
    return _AS_CUDA[key] if key not in table and _AS_CUDA[key] in table else key
