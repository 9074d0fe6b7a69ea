"""A planned rank that computes nothing: for models that are larger than this machine.

The emulated HPU hands out memory that no page is behind, and answers each operator by torch's own rule for the shapes of its results
(the kernels that torch has for the device "meta"). So tensors, their sizes and addresses are real to DDP, FSDP and DTensor, and cost
nothing. What is small, and does not come from what was left out, is computed as ever: indices, masks, positions.

This module does the same for tensors of the host, where many programs make and initialise a model before they move it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import msgspec

DEVICE_ELEMENTS = 1 << 16  #: what is larger on the device is not computed
HOST_ELEMENTS = 1 << 18  #: what is larger on the host is neither filled nor drawn
_FILLS = ("fill_", "zero_")
_LIKES = ("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full")


class LeftOut(msgspec.Struct, frozen=True):
    """What a run that computes nothing left out, and what of the estimate rests on that."""

    #: Operators of the device, and of tensors of the host, that were answered by shapes.
    operators: int
    #: Bytes of host memory at the peak, in tensors of 64 kB and more.
    host: int
    #: Operators without a rule for shapes: they were computed, with zeros for what is unknown.
    computed: dict[str, int]
    #: Operators whose result's size depends on unknown values: taken as large as it can be.
    estimated: dict[str, int]
    #: Lines that requested values that are unknown, and got 0.
    reads: dict[str, int]
    #: Calls that would have written values to files, left out.
    saved: dict[str, int]


class Fake:
    """The host's part, and the ledger of both."""

    def __init__(self) -> None:
        self._native: Any = None
        self._left_out = 0
        self._saved: dict[str, int] = {}

    def begin(self, native: Any) -> None:
        """From here on nothing is computed in this process, on the device ``native`` too. Imports torch."""
        import torch

        importlib.import_module("torch._meta_registrations")
        config: Any = importlib.import_module("torch.fx.experimental._config")
        # How many of a mask are marked is not known: all is the most that it can be.
        config.meta_nonzero_assume_all_nonzero = True
        self._native = native
        self._native.begin_fake(DEVICE_ELEMENTS)
        self._keep_files(torch, "save")
        checkpoint = importlib.import_module("torch.distributed.checkpoint")
        for name in ("save", "async_save", "save_state_dict"):
            if hasattr(checkpoint, name):
                self._keep_files(checkpoint, name)

    def end(self) -> LeftOut:
        """What was left out."""
        records = self._native.fake_books()
        return LeftOut(
            records["left_out"] + self._left_out,
            records["host_peak"],
            records["computed"],
            records["estimated"],
            records["reads"],
            self._saved,
        )

    def _keep_files(self, owner: Any, name: str) -> None:
        """A file of zeros in the place of a checkpoint would be a loss."""
        where = f"{owner.__name__}.{name}"

        def leave_out(*args: Any, **kwargs: Any) -> None:
            self._saved[where] = self._saved.get(where, 0) + 1

        setattr(owner, name, leave_out)

    def answers(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Is this an operator of the host that is to be left out?"""
        import torch

        tensors = list(tensors_of((args, kwargs)))
        if any(
            one.device.type != "cpu" or type(one) not in (torch.Tensor, torch.nn.Parameter)
            for one in tensors
        ):
            return False
        where = kwargs.get("device")
        if where is not None and torch.device(where).type != "cpu":
            return False
        schema = func._schema
        if not tensors:
            return func._opname.split("_")[0] != "empty" and any(
                one.name == "device" for one in schema.arguments
            )
        if any(self._native.is_unknown(one) for one in tensors):
            return not _is_view(schema)
        drawn = torch.Tag.nondeterministic_seeded in func.tags
        if drawn or func._opname in (*_FILLS, *_LIKES):
            return any(one.numel() > HOST_ELEMENTS for one in tensors)
        return False

    def answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Its result by shape alone; computed after all where torch has no rule for it, or where it is small."""
        written = _written(func._schema, args, kwargs)
        if written is not None:
            for one in written:
                self._native.mark_unknown(one)
            self._left_out += 1
            return _given_back(func._schema, args, kwargs)
        known = not any(self._native.is_unknown(one) for one in tensors_of((args, kwargs)))
        try:
            shapes = func(
                *(_as_shapes(one) for one in args),
                **{
                    name: _setting(name, _as_shapes(value))
                    for name, value in kwargs.items()
                    if name != "pin_memory"
                },
                **(
                    {}
                    if "device" in kwargs or not _has_device(func._schema)
                    else {"device": "meta"}
                ),
            )
        except Exception:  # the kernel itself says better what is wrong
            return func(*args, **kwargs)
        if known and all(one.numel() <= HOST_ELEMENTS for one in tensors_of(shapes)):
            return func(*args, **kwargs)
        self._left_out += 1
        return self._made(shapes)

    def _made(self, shapes: Any) -> Any:
        import torch

        if isinstance(shapes, (list, tuple)):
            return type(shapes)(self._made(one) for one in shapes)
        if not isinstance(shapes, torch.Tensor):
            return shapes
        made = torch.empty_strided(shapes.shape, shapes.stride(), dtype=shapes.dtype, device="cpu")
        self._native.mark_unknown(made)
        return made


def tensors_of(value: Any) -> Iterator[Any]:
    """The tensors among the arguments or results of an operator."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_of(inner)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def _is_view(schema: Any) -> bool:
    aliases = [one.alias_info for one in schema.returns]
    return any(one is not None and not one.is_write for one in aliases)


def _has_device(schema: Any) -> bool:
    return any(one.name == "device" for one in schema.arguments)


def _setting(name: str, value: Any) -> Any:
    return {"device": "meta", "generator": None}.get(name, value)


def _as_shapes(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return type(value)(_as_shapes(one) for one in value)
    return None if isinstance(value, torch.Generator) else value


def _arguments(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Each argument of the schema that was given, with what is there."""
    for position, one in enumerate(schema.arguments):
        if position < len(args) and not one.kwarg_only:
            yield one, args[position]
        elif one.name in kwargs:
            yield one, kwargs[one.name]


def _written(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any] | None:
    """The tensors that an operator in place writes; None for any other, which makes something new too, or has out=."""
    if any(one.is_out for one in schema.arguments):
        return None
    if not all(one.alias_info is not None and one.alias_info.is_write for one in schema.returns):
        return None
    found: list[Any] = []
    for one, value in _arguments(schema, args, kwargs):
        if one.alias_info is not None and one.alias_info.is_write:
            found.extend(tensors_of(value))
    return found or None


def _given_back(schema: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    results = []
    for result in schema.returns:
        for one, value in _arguments(schema, args, kwargs):
            if (
                one.alias_info is not None
                and one.alias_info.before_set == result.alias_info.before_set
            ):
                results.append(value)
                break
    return results[0] if len(results) == 1 else tuple(results) or None
