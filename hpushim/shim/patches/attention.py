"""Which attention kernels may be chosen: a choice among CUDA's, so the general one stays allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hpushim.shim.patch import APPROXIMATE, patch

Original = Callable[..., Any]


@patch("torch.nn.attention:sdpa_kernel", row="torch.backends.cuda.sdp_kernel", level=APPROXIMATE)
def sdpa_kernel(original: Original, backends: Any, *args: Any, **kwargs: Any) -> Any:
    """``sdpa_kernel(FLASH_ATTENTION)``, and with it the deprecated ``sdp_kernel``: never leaves HPU without a kernel."""
    from torch.nn.attention import SDPBackend

    wanted = list(backends) if isinstance(backends, Iterable) else [backends]
    if wanted and SDPBackend.MATH not in wanted:
        wanted.append(SDPBackend.MATH)
    return original(wanted, *args, **kwargs)
