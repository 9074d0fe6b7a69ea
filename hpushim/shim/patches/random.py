"""``torch.cuda`` random state: seeds and states of the HPU's generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hpushim.shim import devices
from hpushim.shim.patch import APPROXIMATE, EXACT, patch

Original = Callable[..., Any]


@patch("torch.cuda.random:manual_seed", row="torch.cuda.manual_seed", level=APPROXIMATE)
@patch("torch.cuda.random:manual_seed_all", row="torch.cuda.manual_seed_all", level=APPROXIMATE)
def manual_seed(original: Original, seed: int) -> None:
    """Seeds the HPU; the stream of numbers is not CUDA's."""
    import torch

    torch.hpu.random.manual_seed_all(int(seed))


@patch("torch.cuda.random:seed", row="torch.cuda.seed", level=EXACT)
@patch("torch.cuda.random:seed_all", row="torch.cuda.seed_all", level=EXACT)
def seed(original: Original) -> None:
    """Seeds the HPU with a random number."""
    import torch

    torch.hpu.random.seed()


@patch("torch.cuda.random:initial_seed", row="torch.cuda.initial_seed", level=EXACT)
def initial_seed(original: Original) -> int:
    """The seed in force."""
    import torch

    return int(torch.hpu.random.initial_seed())


@patch("torch.cuda.random:get_rng_state", row="torch.cuda.get_rng_state", level=APPROXIMATE)
@devices.of_device
def get_rng_state(original: Original, device: Any = "cuda") -> Any:
    """The state of the one generator; states of CUDA runs do not fit it."""
    import torch

    return torch.hpu.random.get_rng_state()


@patch("torch.cuda.random:set_rng_state", row="torch.cuda.set_rng_state", level=APPROXIMATE)
@devices.of_device
def set_rng_state(original: Original, new_state: Any, device: Any = "cuda") -> None:
    """Restores the generator; a state saved on CUDA is not one of HPU's and is left aside with a warning."""
    _restore(new_state)


@patch("torch.cuda.random:get_rng_state_all", row="torch.cuda.get_rng_state_all", level=APPROXIMATE)
def get_rng_state_all(original: Original) -> list[Any]:
    """A list of one state."""
    import torch

    return [torch.hpu.random.get_rng_state()]


@patch("torch.cuda.random:set_rng_state_all", row="torch.cuda.set_rng_state_all", level=APPROXIMATE)
def set_rng_state_all(original: Original, new_states: Iterable[Any]) -> None:
    """Restores the first state: the process holds one device."""
    for state in new_states:
        _restore(state)
        break


@patch("torch.random:fork_rng", level=EXACT)
def fork_rng(original: Original, chosen: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Every device that is named, also by torch's DTensor after the rank, is the one device; so are all devices together."""
    if "devices" in kwargs:
        chosen = kwargs.pop("devices")
    kind = str(kwargs.get("device_type", args[3] if len(args) > 3 else devices.DEVICE))
    if kind.partition(":")[0] in ("cuda", devices.DEVICE):
        named = list(chosen or ())
        for one in named:
            devices.report_requested(one)
        chosen = [devices.target()] if chosen is None or named else []
    return original(chosen, *args, **kwargs)


@patch("torch.cuda:default_generators", how="value", level=APPROXIMATE)
def default_generators(current: Any) -> Any:
    """HPU's generators, where this release of the Gaudi software shows them."""
    import torch

    return tuple(getattr(torch.hpu.random, "default_generators", current))


def _restore(state: Any) -> None:
    import torch

    from hpushim.shim import log

    expected = torch.hpu.random.get_rng_state()
    if state.numel() != expected.numel():
        log.warn(
            "HPU408",
            f"the random state has {state.numel()} bytes, HPU's has {expected.numel()}: it comes from another device; "
            "hpushim ignores it, so random numbers differ",
        )
        return
    torch.hpu.random.set_rng_state(state.cpu())
