"""The typed tensors of old code: ``torch.cuda.FloatTensor`` and its siblings, called, compared, set as default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.mechanisms import in_place
from hpushim.shim.patch import APPROXIMATE, ERROR, EXACT, patch

Original = Callable[..., Any]

_NAMES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
_PREFIX = "torch.cuda."
_took_default = False


class _TypedTensor(type):
    """Class of the stand-ins: an instance is any tensor on HPU of the stand-in's dtype."""

    dtype: Any
    is_cuda = True

    def __instancecheck__(cls, instance: Any) -> bool:
        import torch

        return (
            isinstance(instance, torch.Tensor)
            and devices.is_hpu(instance.device)
            and instance.dtype is cls.dtype
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        import torch

        kwargs.pop("device", None)
        # torch's own constructor of that type knows every form: sizes, sequences, arrays, nothing.
        return getattr(torch, cls.__name__)(*args, **kwargs).to(devices.INDEXED)

    def __repr__(cls) -> str:
        return f"<class '{_PREFIX}{cls.__name__}'>"


def _stand_in(name: str) -> Callable[[Any], Any]:
    def replacement(current: Any) -> Any:
        import torch

        # Who imported the class by name holds it by value.
        in_place.replaced[id(current)] = (current, f"{_PREFIX}{name}")
        return _TypedTensor(
            name, (), {"dtype": getattr(torch, _NAMES[name]), "__module__": "torch.cuda"}
        )

    return replacement


for _name in _NAMES:
    _replacement = _stand_in(_name)
    _replacement.__module__ = __name__
    patch(f"torch.cuda:{_name}", how="value", level=EXACT)(_replacement)


class _SparseTensor(type):
    """Class of the stand-ins for CUDA's sparse types: nothing is an instance, and none can be made."""

    is_cuda = is_sparse = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        log.refuse("HPU124", "Gaudi has no sparse tensors", "use a dense tensor, or device='cpu'")

    def __repr__(cls) -> str:
        return f"<class '{_PREFIX}sparse.{cls.__name__}'>"


def _sparse(name: str) -> Callable[[Any], Any]:
    def replacement(current: Any) -> Any:
        in_place.replaced[id(current)] = (current, f"{_PREFIX}sparse.{name}")
        return _SparseTensor(name, (), {"__module__": f"{_PREFIX}sparse"})

    return replacement


for _name in _NAMES:
    if _name != "BoolTensor":  # torch has no sparse one
        _replacement = _sparse(_name)
        _replacement.__module__ = __name__
        patch(f"torch.cuda.sparse:{_name}", how="value", row="torch.cuda.sparse", level=ERROR)(
            _replacement
        )


def _dtype_of(kind: Any) -> Any:
    """The dtype of a CUDA tensor type given as a class or as text; None for anything else."""
    if isinstance(kind, _TypedTensor):
        return kind.dtype
    name = (
        kind
        if isinstance(kind, str)
        else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    )
    if not name.startswith(_PREFIX) or name[len(_PREFIX) :] not in _NAMES:
        return None
    import torch

    return getattr(torch, _NAMES[name[len(_PREFIX) :]])


@patch("torch:Tensor.type", how="method", level=APPROXIMATE)
def tensor_type(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """``x.type(torch.cuda.FloatTensor)`` moves and casts; ``x.type()`` answers with CUDA's name."""
    wanted = args[0] if args else kwargs.get("dtype")
    if wanted is None:
        return str(original(self)).replace("torch.hpu.", _PREFIX)
    dtype = _dtype_of(wanted)
    if dtype is None:
        return original(self, *args, **kwargs)
    non_blocking = bool(args[1] if len(args) > 1 else kwargs.get("non_blocking", False))
    return self.to(devices.INDEXED, dtype, non_blocking=non_blocking)


@patch(
    "torch:UntypedStorage.is_cuda",
    "torch:TypedStorage.is_cuda",
    how="getter",
    level=APPROXIMATE,
    row="torch.UntypedStorage.is_cuda",
)
def storage_is_cuda(original: Original, self: Any) -> bool:
    """As for tensors: True on HPU."""
    return devices.is_hpu(self.device) or bool(original(self))


@patch("torch.nn:Module.type", how="method", level=EXACT)
def module_type(original: Original, self: Any, dst_type: Any) -> Any:
    """``model.type(torch.cuda.FloatTensor)`` moves and casts every parameter."""
    dtype = _dtype_of(dst_type)
    if dtype is None:
        return original(self, dst_type)
    return self._apply(lambda tensor: tensor.to(devices.INDEXED, dtype))


@patch("torch:set_default_tensor_type", level=EXACT)
def set_default_tensor_type(original: Original, t: Any) -> None:
    """A CUDA type sets the default dtype and makes HPU the default device; any other type takes HPU back."""
    import torch

    global _took_default
    dtype = _dtype_of(t)
    if dtype is None:
        if _took_default:
            torch.set_default_device(None)
            _took_default = False
        original(t)
        return
    _took_default = True
    torch.set_default_dtype(dtype)
    torch.set_default_device(devices.DEVICE)
    log.note("HPU115", "set_default_tensor_type(torch.cuda…) sets the default device to hpu")
