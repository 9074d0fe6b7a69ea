"""``torch.compile``: the default backend is Gaudi's; optimizers that request NVIDIA's fused kernels do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpushim.shim import devices, log
from hpushim.shim.patch import APPROXIMATE, EXACT, WARN, patch

Original = Callable[..., Any]

BACKEND = "hpu_backend"


@patch("torch:compile", level=APPROXIMATE)
def compile(original: Original, *args: Any, **kwargs: Any) -> Any:
    """No backend, ``inductor`` or ``cudagraphs`` becomes ``hpu_backend``; any other stays. Inductor's mode and options are dropped."""
    wanted = kwargs.get("backend", "inductor")
    if wanted not in ("inductor", "cudagraphs") or kwargs.get("disable"):
        return original(*args, **kwargs)
    kwargs["backend"] = BACKEND
    if wanted == "cudagraphs":
        log.warn(
            "HPU511",
            f"torch.compile(backend='cudagraphs') uses {BACKEND}: Gaudi has no CUDA graphs",
        )
        return original(*args, **kwargs)
    dropped = [
        name for name in ("mode", "options") if kwargs.pop(name, None) not in (None, "default")
    ]
    log.note("HPU510", f"torch.compile uses {BACKEND} in place of inductor")
    if dropped:
        log.note("HPU511", f"torch.compile: {' and '.join(dropped)} of inductor are dropped")
    return original(*args, **kwargs)


@patch("torch.optim.adam:Adam.__init__", row="torch.optim.Adam(fused=)", level=WARN)
@patch("torch.optim.adamw:AdamW.__init__", row="torch.optim.AdamW(fused=)", level=WARN)
@patch("torch.optim.sgd:SGD.__init__", row="torch.optim.SGD(fused=)", level=WARN)
@patch(
    "torch.optim.adagrad:Adagrad.__init__",
    row="torch.optim.Adagrad(fused=)",
    level=WARN,
)
def optimizer_init(original: Original, self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
    """``fused=True`` on HPU parameters: torch's fused kernels would run on the host, so the loop over tensors is taken."""
    if kwargs.get("fused"):
        params = list(params)
        if _on_hpu(params):
            kwargs["fused"] = None
            log.warn(
                "HPU601",
                f"{type(self).__name__}(fused=True): torch's fused kernel has no HPU version; "
                "the unfused optimizer is used (habana_frameworks.torch.hpex.optimizers has Gaudi's own)",
            )
    original(self, params, *args, **kwargs)


def _on_hpu(params: list[Any]) -> bool:
    from hpushim.shim import devices

    for item in params:
        if isinstance(item, dict):
            inner = item.get("params", ())
            tensors = [inner] if hasattr(inner, "device") else list(inner)
            item["params"] = tensors
        else:
            tensors = [item[1] if isinstance(item, tuple) else item]
        for tensor in tensors:
            tensor = tensor[1] if isinstance(tensor, tuple) else tensor
            if devices.is_hpu(getattr(tensor, "device", None)):
                return True
    return False


@patch("torch._dynamo.variables.tensor:TensorVariable.method_attr_is_cuda", level=EXACT)
def traced_is_cuda(original: Original, self: Any, tx: Any) -> Any:
    """``x.is_cuda`` in compiled code is folded from the traced device; on HPU it is True, as in eager code."""
    if not devices.is_hpu(self.device):
        return original(self, tx)
    from torch._dynamo.variables import ConstantVariable

    return ConstantVariable.create(True)
