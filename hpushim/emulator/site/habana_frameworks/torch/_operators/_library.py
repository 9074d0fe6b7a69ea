"""Registers an operator of the vendor's under ``torch.ops.hpu``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from hpushim.emulator import device

_library = torch.library.Library("hpu", "FRAGMENT")


def operator(
    schema: str, *, random: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares ``schema`` (``name.overload(arguments) -> results``) with the decorated function as its kernel.

    The function meets host tensors, which the device lends it, or meta tensors while a graph is compiled. ``random``:
    it draws numbers without a generator among its arguments.
    """
    name = schema.partition("(")[0]

    def register(kernel: Callable[..., Any]) -> Callable[..., Any]:
        tags = (torch.Tag.nondeterministic_seeded,) if random else ()
        _library.define(schema, tags=tags)
        _library.impl(name, _for_the_device(name, kernel), "CPU")
        _library.impl(name, kernel, "Meta")
        return kernel

    return register


def _for_the_device(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    native = device.load()

    @functools.wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not native.is_inside():
            raise NotImplementedError(
                f"hpu::{name.partition('.')[0]} runs on hpu tensors alone, and was given CPU tensors; move them with .to('hpu')"
            )
        return kernel(*args, **kwargs)

    return run
