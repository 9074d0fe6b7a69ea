"""Gaudi's accelerator for Lightning, over packages that have no more than what it touches; the real ones are in tests/frameworks."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hpushim import lightning
from hpushim.errors import HpushimError

TREES = {
    "lightning.pytorch": ("trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
    "lightning.fabric": ("connector", "_Connector"),
    "pytorch_lightning": ("trainer.connectors.accelerator_connector", "_AcceleratorConnector"),
    "lightning_fabric": ("connector", "_Connector"),
}
#: Where the functions of a tree are that are Fabric's.
FABRIC = {"lightning.pytorch": "lightning.fabric", "pytorch_lightning": "lightning_fabric"}
_Device = types.SimpleNamespace


class _Group:
    def __init__(self, *trees: str, old: bool) -> None:
        self.marks, self.modules = 0, {}  # type: ignore[var-annotated]
        self.hooks: list[Any] = []
        self.made("habana_frameworks.torch.core").mark_step = self.mark
        for tree in trees:
            connector, name = TREES[tree]
            shown = type("CUDAAccelerator", (), {"of": tree, "name": staticmethod(lambda: "cuda"), "teardown": lambda self: "cuda"})  # fmt: skip
            self.made(f"{tree}.accelerators").CUDAAccelerator = shown
            setattr(self.made(f"{tree}.{connector}"), name, self._connector())
            strategies = self.made(f"{tree}.strategies")
            ids = "_determine_ddp_device_ids" if old else "determine_ddp_device_ids"
            strategies.Strategy = type("Strategy", (), {"backward": lambda self, *args, **kwargs: (args, kwargs)})  # fmt: skip
            strategies.DDPStrategy = type("DDPStrategy", (), {ids: lambda self: ["ids"]})
            strategies.DDPStrategy.__module__ = f"{tree}.strategies.ddp"
            ddp = self.made(f"{tree}.strategies.ddp")
            if not old:
                ddp._init_dist_connection = lambda *args, **kwargs: (args, kwargs)
            self.made(
                f"{FABRIC.get(tree, tree)}.utilities.distributed"
            )._sync_ddp = self._synchronised

    def mark(self) -> None:
        self.marks += 1

    @staticmethod
    def _synchronised(result: Any, group: Any = None, reduce_op: Any = None) -> Any:
        return result if reduce_op == "sum" else ("real", result, group, reduce_op)

    @staticmethod
    def _connector() -> type:
        def final(self: Any, *args: Any, **kwargs: Any) -> Any:
            return args, kwargs

        def precision(self: Any) -> Any:
            return self.plugin

        return type("Connector", (), {"_check_and_init_precision": precision, "_check_config_and_set_final_flags": final})  # fmt: skip

    def made(self, name: str) -> Any:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if part not in self.modules:
                self.modules[part] = types.ModuleType(part)
                self.modules[part].__path__ = []
        return self.modules[name]


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for cached in (lightning._accelerator_class, lightning._mark_steps):
        cached.cache_clear()
    for name in list(sys.modules):
        if name.partition(".")[0] in ("lightning", "pytorch_lightning", "lightning_fabric", "habana_frameworks"):  # fmt: skip
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(torch, "hpu", _Device(device_count=lambda: 8, is_available=lambda: True, memory_stats=lambda device: [("of", device)]), raising=False)  # fmt: skip
    yield monkeypatch
    for cached in (lightning._accelerator_class, lightning._mark_steps):
        cached.cache_clear()


def _install(patch: pytest.MonkeyPatch, *trees: str, old: bool = False) -> _Group:
    group = _Group(*trees, old=old)
    for name, module in group.modules.items():
        patch.setitem(sys.modules, name, module)
    from torch.optim import optimizer

    patch.setattr(optimizer, "register_optimizer_step_post_hook", group.hooks.append)
    return group


@pytest.mark.parametrize("trees", [("lightning.fabric",), ("lightning_fabric",), ("lightning.pytorch", "lightning.fabric"), ("pytorch_lightning", "lightning_fabric"), tuple(TREES)])  # fmt: skip
@pytest.mark.parametrize("old", [False, True])
def test_each_tree_that_is_there_is_adapted_once(empty: pytest.MonkeyPatch, trees: tuple[str, ...], old: bool) -> None:  # fmt: skip
    group = _install(empty, *trees, old=old)
    one, two = lightning.HPUAccelerator(), lightning.HPUAccelerator()
    assert type(one) is type(two)
    assert [base.of for base in type(one).__bases__] == list(trees)  # type: ignore[attr-defined]
    assert (one.name(), one.teardown(), one.setup(None), one.auto_device_count(), one.is_available()) == ("hpu", None, None, 8, True)  # fmt: skip
    assert one.get_device_stats("hpu:0") == {"of": "hpu:0"}
    assert one.get_parallel_devices(2) == [torch.device("hpu", 0)] * 2
    assert one.__reduce__() == (lightning.HPUAccelerator, ())
    assert type(one).__module__ == "hpushim.lightning"
    assert len(group.hooks) == 1
    group.hooks[0](None, (), {})
    assert group.marks == 1
    for tree in trees:
        connector = getattr(group.modules[f"{tree}.{TREES[tree][0]}"], TREES[tree][1])
        args, kwargs = connector()._check_config_and_set_final_flags(1, accelerator="hpu", x=2)
        assert (args, type(kwargs.pop("accelerator")), kwargs) == ((1,), type(one), {"x": 2})
        assert connector()._check_config_and_set_final_flags(accelerator="gpu") == ((), {"accelerator": "gpu"})  # fmt: skip
        strategies = group.modules[f"{tree}.strategies"]
        for kind in ("hpu", "cpu"):
            strategy = strategies.DDPStrategy()
            strategy.root_device = _Device(type=kind)
            ids = strategy._determine_ddp_device_ids if old else strategy.determine_ddp_device_ids
            assert ids() == (None if kind == "hpu" else ["ids"])
            plain = strategies.Strategy()
            plain.root_device = _Device(type=kind)
            before = group.marks
            assert plain.backward(1, a=2) == ((1,), {"a": 2})
            assert group.marks - before == (kind == "hpu")
        ddp = group.modules[f"{tree}.strategies.ddp"]
        assert hasattr(ddp, "_init_dist_connection") is not old
        if not old:
            for given, kept in ({"device_id": "hpu:0"}, {}), ({"device_id": torch.device("cpu")},) * 2, ({"x": 1},) * 2:  # type: ignore[misc]  # fmt: skip
                assert ddp._init_dist_connection(5, **given) == ((5,), kept)
        fabric = group.modules[f"{FABRIC.get(tree, tree)}.utilities.distributed"]
        empty.setattr(torch.distributed, "get_world_size", lambda group: {"g": 4}[group])
        assert fabric._sync_ddp(_Result("hpu"), "g", reduce_op="avg") == (4, None)
        assert fabric._sync_ddp(result := _Result("cpu"), "g", reduce_op="avg") == ("real", result, "g", "avg")  # fmt: skip
        wrapped = strategies.Strategy.backward
        lightning._around(strategies.Strategy, "backward", lightning._backward)
        assert strategies.Strategy.backward is wrapped


class _Result:
    def __init__(self, kind: str, whole: bool = False) -> None:
        self.device, self.whole = _Device(type=kind), whole

    def is_floating_point(self) -> bool:
        return not self.whole

    def div_(self, size: int, rounding_mode: str | None) -> tuple[int, str | None]:
        return size, rounding_mode


@pytest.mark.parametrize("kind", ["hpu", "cpu"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("reduce_op", ["avg", "mean", "AVG", "sum", None, torch.distributed.ReduceOp.AVG, torch.distributed.ReduceOp.SUM])  # fmt: skip
def test_an_average_over_hccl_is_a_sum_that_is_divided(monkeypatch: pytest.MonkeyPatch, kind: str, whole: bool, reduce_op: Any) -> None:  # fmt: skip
    asked: list[Any] = []

    def original(result: _Result, group: Any, how: Any) -> _Result:
        asked.append((group, how))
        return result

    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group: {"g": 4}[group])
    found = lightning._synchronised(original, result := _Result(kind, whole), "g", reduce_op)
    averages = str(reduce_op).lower() in ("avg", "mean") or reduce_op == torch.distributed.ReduceOp.AVG  # fmt: skip
    if kind == "hpu" and averages:
        assert (found, asked) == ((4, "trunc" if whole else None), [("g", "sum")])
    else:
        assert (found, asked) == (result, [("g", reduce_op)])


@pytest.mark.parametrize("kind", ["SingleDeviceStrategy", "DDPStrategy", "FSDPStrategy", "DeepSpeed"])  # fmt: skip
@pytest.mark.parametrize("name", ["hpu", "cuda"])
@pytest.mark.parametrize("flag", ["_precision_flag", "_precision_input"])
@pytest.mark.parametrize(("asked", "wanted"), [("16-mixed", "bf16-mixed"), ("16-true", "bf16-true"), ("32-true", "32-true"), (None, None)])  # fmt: skip
@pytest.mark.parametrize("device", ["cuda", "cpu", None])
def test_half_precision_is_bfloat16_and_autocast_is_for_hpu(kind: str, name: str, flag: str, asked: str | None, wanted: str | None, device: str | None) -> None:  # fmt: skip
    connector = _Device(accelerator=_Device(name=lambda: name), strategy=type(kind, (), {})())
    setattr(connector, flag, asked)
    plugin = _Device(device=device) if device else _Device()
    if name == "hpu" and not kind.startswith(("SingleDevice", "DDP")):
        with pytest.raises(HpushimError, match=f"^{kind} is not adapted to Gaudi; expected one device or DDP; use strategy='ddp'"):  # fmt: skip
            lightning._precision(lambda connector: plugin, connector)
        return
    assert lightning._precision(lambda connector: plugin, connector) is plugin
    assert getattr(connector, flag) == (wanted if name == "hpu" else asked)
    assert getattr(plugin, "device", None) == ("hpu" if (name, device) == ("hpu", "cuda") else device)  # fmt: skip


@pytest.mark.parametrize(
    ("devices", "number"), [(8, 8), ("8", 8), (-1, 8), ("-1", 8), ([0], 1), ((0, 1, 2), 3), ([], 0), (1, 1), ([1], None), ([0, 2], None), ((1, 0), None)]
)  # fmt: skip
def test_devices_are_counted_and_not_chosen(empty: pytest.MonkeyPatch, devices: Any, number: int | None) -> None:  # fmt: skip
    if number is None:
        with pytest.raises(HpushimError, match=rf"^devices=\[{str(list(devices))[1:-1]}\]: a process sees one Gaudi device, as number 0"):  # fmt: skip
            lightning._parse_devices(devices)
    else:
        assert lightning._parse_devices(devices) == number


@pytest.mark.parametrize(("rank", "chosen"), [("3", [3]), ("", []), ("x", []), (None, [])])
def test_each_process_has_the_device_of_its_rank(empty: pytest.MonkeyPatch, rank: str | None, chosen: list[int]) -> None:  # fmt: skip
    found: list[int] = []
    torch.hpu.set_device = found.append
    empty.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        empty.setenv("LOCAL_RANK", rank)
    lightning._setup_device(None, _Device(type="hpu"))
    assert found == chosen
    with pytest.raises(HpushimError, match=r"^the accelerator is Gaudi, but the strategy's device is cpu; expected hpu"):  # fmt: skip
        lightning._setup_device(None, torch.device("cpu"))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("works", [True, False])
def test_elsewhere_another_word_is_given(empty: pytest.MonkeyPatch, there: bool, works: bool) -> None:  # fmt: skip
    if there:
        _install(empty, "lightning.pytorch", "lightning.fabric")
    else:
        empty.setitem(sys.modules, "habana_frameworks", None)
    torch.hpu.is_available = lambda: works
    is_gaudi = there and works
    found = lightning.accelerator("cpu")
    assert (found if isinstance(found, str) else found.name()) == ("hpu" if is_gaudi else "cpu")
    assert lightning.accelerator_name("cpu") == ("hpu" if is_gaudi else "cpu")
    if not is_gaudi:
        assert lightning.accelerator() == "auto"
    if there:
        assert lightning.accelerator_name() == "hpu"
    else:
        with pytest.raises(ImportError):
            lightning.accelerator_name()


def test_without_lightning_it_is_said(empty: pytest.MonkeyPatch) -> None:
    _install(empty)
    for package in ("lightning", "pytorch_lightning", "lightning_fabric"):
        empty.setitem(sys.modules, package, None)

    def gone(name: str) -> Any:
        raise ModuleNotFoundError(name=name.partition(".")[0])

    empty.setattr(importlib, "import_module", lambda name: None if name.startswith("habana") else gone(name))  # fmt: skip
    with pytest.raises(HpushimError, match="neither lightning nor pytorch_lightning is installed; expected one"):  # fmt: skip
        lightning.HPUAccelerator()
    for name in ("lightning", "lightning.pytorch", "other", None):

        def fails(package: str, name: str | None = name) -> Any:
            raise ModuleNotFoundError(name=name)

        empty.setattr(importlib, "import_module", fails)
        if name in ("other", None):
            with pytest.raises(ModuleNotFoundError):
                lightning._importable("lightning.pytorch")
        else:
            assert lightning._importable("lightning.pytorch") is False
