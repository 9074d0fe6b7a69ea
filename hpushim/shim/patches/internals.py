"""What only a CUDA build of torch holds: its C functions, its version; said with a code where user code requests it."""

from __future__ import annotations

from typing import Any

from hpushim import callers
from hpushim.errors import UnsupportedOnHpu
from hpushim.shim import devices, log, policy
from hpushim.shim.mechanisms import in_place
from hpushim.shim.mechanisms.in_place import Undo
from hpushim.shim.patch import APPROXIMATE, ERROR, patch

_NATIVE = "torch._C"


class NotInThisTorch(UnsupportedOnHpu, AttributeError):
    """An attribute that a CUDA build has and this torch has not; ``hasattr`` says False, as it should."""


@patch("torch", how="hook", row="torch._C._cuda", level=ERROR)
def native_names() -> Undo:
    """``torch._C._cuda_…`` names the code and the place; torch's own questions get torch's own answer."""
    import torch

    native = torch._C
    undos = [in_place.set_attribute(native, "__getattr__", _missing)]
    for name, value in vars(native).items():
        if name.startswith("_cuda_") and isinstance(value, type):
            # torch puts a class that cannot be made where a function of a CUDA build would be.
            undos.append(in_place.set_attribute(value, "__new__", staticmethod(_not_made(name))))

    def undo() -> bool:
        results = [one() for one in undos]
        return all(results)

    return undo


def _called_by_user(of: str = __name__) -> bool:
    package = callers.of_patched(of).partition(".")[0]
    return package != "torch" and policy.is_users(package)


def _missing(name: str) -> Any:
    text = f"module {_NATIVE!r} has no attribute {name!r}"
    if not name.startswith("_cuda") or not _called_by_user():
        raise AttributeError(text)
    file, line = callers.user_site()
    raise NotInThisTorch(
        f"HPU417 {file}:{line}: {text}: it belongs to CUDA builds of torch; use torch.cuda's or torch.hpu's public functions"
    )


def _not_made(name: str) -> Any:
    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        log.refuse(
            "HPU417",
            f"{_NATIVE}.{name} belongs to CUDA builds of torch",
            "use torch.cuda's or torch.hpu's public functions",
        )

    return __new__


@patch(
    "torch:Tensor.__cuda_array_interface__",
    how="getter",
    row="torch.Tensor.__cuda_array_interface__",
    level=ERROR,
)
def cuda_array(original: Any, self: Any) -> Any:
    """Where other libraries take a tensor's memory for CUDA's: not there, so that ``hasattr`` says False."""
    if not devices.is_hpu(self.device):
        return original(self)
    raise NotInThisTorch(
        str(
            log.refusal(
                "HPU119",
                "__cuda_array_interface__ of a tensor on HPU",
                "hand x.cpu().numpy() to other libraries",
            )
        )
    )


@patch("torch", how="hook", row="torch.version.cuda", level=APPROXIMATE)
def version_of_cuda() -> Undo:
    """``torch.version.cuda`` and cuDNN's version stay None, which code that compares versions does not expect: said where
    they are read.
    """
    import torch

    module = torch.version
    kind = type(module)
    value = vars(module).get("cuda")

    def cuda(self: Any) -> Any:
        if _called_by_user():
            log.note("HPU122", f"torch.version.cuda is {value}: guard what compares or parses it")
        return value

    module.__class__ = type(kind.__name__, (kind,), {"cuda": property(cuda)})
    changed = type(module)
    of_cudnn = torch.backends.cudnn.version
    original = in_place.clone(of_cudnn)

    def version() -> Any:
        found = original()
        if found is None and _called_by_user(of_cudnn.__module__):
            log.note("HPU410", "torch.backends.cudnn.version() is None: guard what compares it")
        return found

    put_back = in_place.exchange_code(of_cudnn, version)

    def undo() -> bool:
        if type(module) is not changed:
            return False
        module.__class__ = kind
        return put_back()

    return undo
