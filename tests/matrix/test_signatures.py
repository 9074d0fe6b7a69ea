"""What torch's stubs say of its names: the data that is checked in, held to the torch that is installed."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest
import torch
import torch_stubs

from hpushim.matrix import signatures


@cache
def _stubs() -> torch_stubs.Stubs:
    return torch_stubs.Stubs(Path(torch.__file__).parent)


def test_the_data_are_what_the_stubs_of_the_installed_torch_say() -> None:
    stubs = _stubs()
    if stubs.release not in signatures.releases():
        pytest.skip(f"the data have nothing of torch {torch.__version__}")
    there = {n: s for n, s in stubs.signatures.items() if torch_stubs.is_kept(n, stubs.signatures)}
    if stubs.release < signatures.releases()[-1]:  # the data hold what the newest release says
        there = {name: one for name, one in there.items() if name.count(".") == 1}
        assert set(there) - signatures.names() == set()
    else:
        now = {name for name in signatures.names() if _is_in(name, stubs.release)}
        assert {name: signatures.of(name) for name in now} == there


def _is_in(name: str, release: tuple[int, ...]) -> bool:
    since, until = signatures.within(name)
    return (since is None or since <= release) and (until is None or release <= until)


def _object(name: str) -> object:
    parts = name.split(".")
    found: object = importlib.import_module("torch")
    for part in parts[1:]:
        found = getattr(found, part)
    return found


def test_names_exist_in_the_releases_that_the_data_name() -> None:
    release = _stubs().release
    if release not in signatures.releases():
        pytest.skip(f"the data have nothing of torch {torch.__version__}")
    for owner in ("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer"):
        members = [f"{owner}.{name}" for name in signatures.members(owner)]
        assert len(members) > 10
        # annotations alone, `training: bool`, stand in the class only as such
        there = {name for name in members if hasattr(_object(owner), name.rpartition(".")[2])}
        told = {name for name in members if signatures.of(name).form == "function" and _is_in(name, release)}  # type: ignore[union-attr]  # fmt: skip
        assert told - there == set()


@pytest.mark.parametrize("name", ["torch.zeros", "torch.Tensor.new_zeros", "torch.full", "torch.eye"])  # fmt: skip
def test_what_a_signature_says_of_a_device_is_what_torch_takes(name: str) -> None:
    signature = signatures.of(name)
    assert signature is not None
    assert signature.kinds == ("tensor",)
    assert signature.parameter("device") == ("device", None)
    made = {"torch.full": ((2,), 1.0), "torch.eye": (2,)}.get(name, ((2,),))
    method = name.startswith("torch.Tensor.")
    function = getattr(torch.ones(1) if method else torch, name.rpartition(".")[2])
    assert function(*made, device="meta", dtype=torch.float64).is_meta


@pytest.mark.parametrize("name", ["torch.load", "torch.hub.load_state_dict_from_url", "torch.nn.Linear"])  # fmt: skip
def test_places_are_those_of_python(name: str) -> None:
    signature = signatures.of(name)
    assert signature is not None
    written, place = signature.parameter("device") or ("", -1)
    asked = list(inspect.signature(_object(name)).parameters)  # type: ignore[arg-type]
    assert asked[place or 0] == written


@pytest.mark.parametrize(
    ("name", "returns"),
    [
        ("torch.Tensor.size", "number|size"),
        ("torch.Tensor.cpu", "tensor"),
        ("torch.Tensor.item", "number"),
        ("torch.Tensor.numpy", "array"),
        ("torch.max", "tensor|tensors"),
        ("torch.linalg.det", "tensor"),
        ("torch.nn.functional.relu", "tensor"),
        ("torch.nn.Linear", "module"),
        ("torch.nn.Module.half", "module"),
        ("torch.optim.AdamW", "optimizer"),
        ("torch.optim.lr_scheduler.StepLR", "scheduler"),
        ("torch.FloatTensor", "tensor"),
        ("torch.device", "device"),
        ("torch.get_default_dtype", "dtype"),
        ("torch.is_tensor", "bool"),
        ("torch.cuda.is_available", "bool"),
    ],
)
def test_what_is_returned(name: str, returns: str) -> None:
    signature = signatures.of(name)
    assert signature is not None
    assert signature.returns == returns


def test_a_name_that_torch_lacks_has_no_signature() -> None:
    assert signatures.of("torch.zeroes") is None
    assert signatures.of("numpy.zeros") is None


def test_releases_are_told_of_names_that_came_or_went() -> None:
    assert signatures.within("torch.zeros") == (None, None)
    assert signatures.within("torch.accelerator.empty_cache") == ((2, 9), None)
