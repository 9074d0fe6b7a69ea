"""The typed tensors of old code: ``torch.cuda.FloatTensor`` and its siblings, called, compared, set as default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.mechanisms import constructor
from hpushim.shim.mechanisms.in_place import Undo
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


def _constructor(name: str) -> Callable[..., Any]:
    def make(original: Original, cls: type, *args: Any, **kwargs: Any) -> Any:
        """``torch.cuda.FloatTensor(…)``: sizes, a sequence, an array, nothing."""
        import torch

        devices.mapped(kwargs.pop("device", None))
        given = args[0] if args else kwargs.get("other")
        if isinstance(given, cls) and len(args) + len(kwargs) == 1:
            return torch.ops.aten.alias(given)  # as torch does: the same memory
        # torch's own constructor of that type knows every other form.
        return getattr(torch, name)(*args, **kwargs).to(devices.INDEXED)

    return make


for _name in _NAMES:
    patch(f"torch.cuda:{_name}", how="constructor", level=EXACT)(_constructor(_name))


@patch(
    *[f"torch.cuda.sparse:{name}" for name in _NAMES if name != "BoolTensor"],  # torch has no such
    how="constructor",
    row="torch.cuda.sparse",
    level=ERROR,
)
def sparse_tensor(original: Original, cls: type, *args: Any, **kwargs: Any) -> Any:
    """Refused: ``torch.cuda.sparse.FloatTensor(…)``."""
    log.refuse("HPU124", "Gaudi has no sparse tensors", "use a dense tensor, or device='cpu'")


@patch("torch.cuda", how="hook", row="torch.cuda.FloatTensor", level=EXACT)
def instances() -> Undo:
    """``isinstance(x, torch.cuda.FloatTensor)``: any dense tensor on HPU of that dtype."""
    import torch

    kind: Any = type(torch.cuda.FloatTensor)
    original = kind.__instancecheck__

    def __instancecheck__(cls: Any, instance: Any) -> bool:
        if not cls.is_cuda or not isinstance(instance, torch.Tensor):
            return bool(original(cls, instance))
        return (
            devices.is_hpu(instance.device)
            and instance.dtype is cls.dtype
            and instance.layout is cls.layout
        )

    return constructor.set_in_type(kind, "__instancecheck__", __instancecheck__)


@patch(
    "torch.storage:_LegacyStorageMeta.__instancecheck__", row="torch.cuda.FloatStorage", level=EXACT
)
def storage_instances(original: Original, cls: Any, instance: Any) -> bool:
    """``isinstance(storage, torch.cuda.FloatStorage)``: a storage on HPU of that dtype."""
    import torch

    if cls.__module__ == "torch.cuda" and type(instance) is torch.TypedStorage:
        return devices.is_hpu(instance.device) and instance.dtype is cls.dtype
    return bool(original(cls, instance))


def _dtype_of(kind: Any) -> Any:
    """The dtype of a CUDA tensor type given as a class or as text; None for anything else."""
    name = kind
    if not isinstance(kind, str):
        name = f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    if not name.startswith(_PREFIX) or name[len(_PREFIX) :] not in _NAMES:
        return None
    import torch

    return getattr(torch, _NAMES[name[len(_PREFIX) :]])


@patch("torch:Tensor.type", level=APPROXIMATE)
def tensor_type(original: Original, self: Any, *args: Any, **kwargs: Any) -> Any:
    """``x.type(torch.cuda.FloatTensor)`` moves and casts; ``x.type()`` answers with CUDA's name."""
    wanted = args[0] if args else kwargs.get("dtype")
    if wanted is None:
        return str(original(self)).replace("torch.hpu.", _PREFIX)
    dtype = _dtype_of(wanted)
    if dtype is None:
        return original(self, *args, **kwargs)
    import torch
    from torch.overrides import handle_torch_function, has_torch_function_unary

    if has_torch_function_unary(self):
        return handle_torch_function(torch.Tensor.type, (self,), self, *args, **kwargs)
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


@patch("torch.nn:Module.type", level=EXACT)
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
            _legacy_constructor(on_hpu=False)
        original(t)
        return
    _took_default = True
    torch.set_default_dtype(dtype)
    torch.set_default_device(devices.DEVICE)
    _legacy_constructor(on_hpu=True)
    log.note("HPU115", "set_default_tensor_type(torch.cuda…) sets the default device to hpu")


_undo_constructor: Undo | None = None


def _legacy_constructor(*, on_hpu: bool) -> None:
    """``torch.Tensor(…)`` makes the default type, which no default device changes; the hook is as long as the type."""
    import torch

    global _undo_constructor
    if on_hpu and _undo_constructor is None:
        _undo_constructor = constructor.hook(torch.Tensor, _default_tensor)
    elif not on_hpu and _undo_constructor is not None:
        _undo_constructor()
        _undo_constructor = None


def _default_tensor(original: Original, cls: type, *args: Any, **kwargs: Any) -> Any:
    """Sizes, a sequence, an array, nothing: on HPU. A tensor is the same tensor again."""
    import torch

    if len(args) == 1 and isinstance(args[0], torch.Tensor) and devices.is_hpu(args[0].device):
        return args[0].view_as(args[0]).as_subclass(cls)
    if "device" in kwargs and devices.is_hpu(torch.device(kwargs["device"])):
        kwargs = {name: value for name, value in kwargs.items() if name != "device"}
    made = original(cls, *args, **kwargs)
    if "device" in kwargs or (args and isinstance(args[0], torch.Tensor)):
        return made  # another device was named
    return made.to(devices.INDEXED)


@patch("torch", how="hook", row="torch.set_default_tensor_type", level=EXACT)
def default_type_ends() -> Undo:
    """``deactivate`` takes back what a default type of the device has left."""

    def undo() -> bool:
        _legacy_constructor(on_hpu=False)
        return True

    return undo
