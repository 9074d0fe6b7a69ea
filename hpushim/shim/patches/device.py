"""``torch.device`` and every operator called with ``device="cuda"``."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.mechanisms import c_function, dispatcher
from hpushim.shim.mechanisms.in_place import HookUnavailable, Undo
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, patch

_KEPT = 256


@patch("torch:device", how="constructor", level=EXACT, factory=True)
def device(original: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.device("cuda:3")``, ``("cuda", 3)``, ``(type=…, index=…)`` and a bare index are ``hpu:0``."""
    # A device never changes, so the ones that were requested by text are kept.
    known: dict[str, Any] = {}

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == 1:
            first = args[0]
            if type(first) is str:
                made = known.get(first)
                if made is None:
                    made = original(cls, devices.text(first))
                    if len(known) < _KEPT:
                        known[first] = made
                return made
        return _other_forms(original, cls, args, kwargs)

    return new


def _other_forms(
    original: Callable[..., Any], cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    first = args[0] if args else kwargs.get("type", kwargs.get("device"))
    if isinstance(first, int) and not isinstance(first, bool) and first > 0:
        devices.report_device(first)
        return original(cls, devices.INDEXED)
    if first == "cuda":
        index = args[1] if len(args) > 1 else kwargs.get("index")
        if isinstance(index, int) and index < 0:
            return original(cls, devices.DEVICE, index)  # torch's error
        if isinstance(index, int) and index > 0:
            devices.report_device(index)
        return original(cls, devices.DEVICE if index is None else devices.INDEXED)
    if isinstance(first, str) and devices.is_cuda_text(first):
        return original(cls, devices.text(first))
    return original(cls, *args, **kwargs)


@patch("torch:UntypedStorage", how="constructor", row="torch.dispatch.CUDA", level=EXACT)
def new_storage(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.UntypedStorage(n, device="cuda")``, which torch.TypedStorage makes as well."""
    if kwargs.get("device") is not None:
        kwargs["device"] = devices.mapped(kwargs["device"])
    return original(cls, *args, **kwargs)


@patch("torch:Generator", how="constructor", level=APPROXIMATE)
def generator(original: Callable[..., Any], cls: type, *args: Any, **kwargs: Any) -> Any:
    """``torch.Generator("cuda")`` is an HPU generator, or one of the CPU where the release makes no other.

    It draws other numbers than a CUDA one of that seed.
    """
    if args:
        args = (devices.mapped(args[0]), *args[1:])
    elif kwargs.get("device") is not None:
        kwargs["device"] = devices.mapped(kwargs["device"])
    try:
        return original(cls, *args, **kwargs)
    except RuntimeError:
        import torch

        where = args[0] if args else kwargs.get("device")
        if where is None or torch.device(where).type != devices.DEVICE:
            raise
        # Kernels of such a release draw their seeds from generators of the CPU.
        log.note("HPU409", "this release has no generator for hpu; hpushim uses a CPU generator")
        return original(cls, "cpu")


@patch("torch", how="hook", row="torch.dispatch.CUDA", level=EXACT)
def operators() -> Undo:
    """Operators that reach the CUDA dispatch key run on HPU."""
    return dispatcher.install()


def _from_data(original: Callable[..., Any]) -> Callable[..., Any]:
    """``factory(…, device="cuda")``, or an index, without going through the dispatcher net."""
    import torch

    kind = torch.device
    known = {"cuda": torch.device(devices.DEVICE), "cuda:0": torch.device(devices.INDEXED)}

    def factory(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return original(*args)
        if "device" in kwargs:
            where = kwargs["device"]
            if type(where) is str:
                kwargs["device"] = known.get(where) or devices.text(where)
            elif type(where) is not kind or where.type == "cuda":
                kwargs["device"] = devices.mapped(where)
        return original(*args, **kwargs)

    return factory


# These ask the device guard for the current index before any operator runs, so the dispatcher cannot catch them.
patch(
    "torch:tensor",
    "torch:as_tensor",
    "torch:asarray",
    "torch.nested:nested_tensor",
    "torch.nested:as_nested_tensor",
    level=EXACT,
    factory=True,
)(_from_data)


@patch(
    "torch:sparse_coo_tensor",
    "torch:sparse_csr_tensor",
    "torch:sparse_csc_tensor",
    "torch:sparse_bsr_tensor",
    "torch:sparse_bsc_tensor",
    "torch:sparse_compressed_tensor",
    level=ERROR,
    factory=True,
)
def sparse(original: Callable[..., Any]) -> Callable[..., Any]:
    """As those above; where HPU has no such tensor the refusal says what to do."""
    make = _from_data(original)

    def factory(*args: Any, **kwargs: Any) -> Any:
        try:
            return make(*args, **kwargs)
        except NotImplementedError as error:
            if devices.DEVICE not in str(error).lower():
                raise
            log.refuse(
                "HPU124", "Gaudi has no sparse tensors", "use a dense tensor, or device='cpu'"
            )

    return factory


@patch("torch", how="hook", row="torch.dispatch.CUDA", level=EXACT)
def factories() -> Undo:
    """Every other function of torch's that takes a device: the dispatcher catches them as well, at ten times the cost,
    and without an index such as ``device=rank``.
    """
    import torch
    from torch.utils._device import _device_constructors

    listed = [*_device_constructors(), *(f for n, f in vars(torch).items() if n.endswith("_like"))]
    undos = []
    for function in listed:
        if isinstance(function, types.BuiltinFunctionType) and not c_function.is_exchanged(
            function
        ):
            try:
                undos.append(c_function.exchange(function, _from_data))
            except HookUnavailable:
                break

    def undo() -> bool:
        results = [one() for one in undos]
        return all(results)

    return undo


@patch(
    "torch:Tensor.new_empty",
    "torch:Tensor.new_empty_strided",
    "torch:Tensor.new_full",
    "torch:Tensor.new_ones",
    "torch:Tensor.new_tensor",
    "torch:Tensor.new_zeros",
    row="torch.dispatch.CUDA",
    level=EXACT,
    factory=True,
)
def new_like_self(original: Callable[..., Any]) -> Callable[..., Any]:
    """``x.new_zeros(…, device=rank)``."""
    return _from_data(original)
