"""What stands in the place of torch's profilers, compiler, optimizers, libraries and properties; how the shim decides: each called by itself."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import types
from typing import Any

import pytest
import torch

from hpushim import callers, settings
from hpushim.errors import HpushimError, UnsupportedOnHpu
from hpushim.shim import detect, devices, log, properties, vendor
from hpushim.shim.patches import comm, library, profiling
from hpushim.shim.patches import compile as of_compile
from hpushim.shim.run import import_hook, ported


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The codes that were noted or warned of."""
    found: list[str] = []
    monkeypatch.setattr(log, "note", lambda code, *rest: found.append(f"note {code}"))
    monkeypatch.setattr(log, "warn", lambda code, *rest, **how: found.append(f"warn {code}"))
    return found


def _original(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return ("original", *args, kwargs)


class OnHpu(torch.Tensor):  # type: ignore[misc]
    device = types.SimpleNamespace(type="hpu")


def _there() -> Any:
    return torch.ones(1).as_subclass(OnHpu)


# Profilers


def test_marks_for_nvidia_s_viewer_go_nowhere(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    assert (profiling.nvtx_depth(_original, "x"), profiling.nvtx_mark(_original, "x")) == (0, None)
    one: Any = object()
    assert profiling.emit_nvtx_enter(_original, one) is one
    assert profiling.emit_nvtx_exit(_original, one, None, None, None) is False
    profiling.cuda_profiler(_original)
    assert told == ["note HPU619", "note HPU417"]
    with pytest.raises(UnsupportedOnHpu, match="HPU417"):
        profiling.cudart(_original)
    names: list[Any] = []

    class Range:
        def __init__(self, name: str) -> None:
            names.append(name)

        def __enter__(self) -> None:
            names.append("begins")

        def __exit__(self, *given: Any) -> None:
            names.append("ends")

    monkeypatch.setattr(torch.profiler, "record_function", Range)
    with profiling.nvtx_range(_original, "{} of {n}", 1, n=2):
        names.append("inside")
    assert names == ["1 of 2", "begins", "inside", "ends"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize(("asked", "kept"), [(["CPU"], None), (["CUDA"], []), (["CPU", "CUDA"], ["CPU"]), (["CUDA", "XPU"], ["XPU"]), ([], None)])  # fmt: skip
def test_what_a_profiler_records(told: list[str], monkeypatch: pytest.MonkeyPatch, known: bool, records: bool, asked: list[str], kept: list[str] | None) -> None:  # fmt: skip
    kinds = types.SimpleNamespace(CPU="CPU", CUDA="CUDA", XPU="XPU", **({"HPU": "HPU"} if known else {}))  # fmt: skip
    monkeypatch.setattr(torch.profiler, "ProfilerActivity", kinds)
    monkeypatch.setattr(torch.profiler, "supported_activities", lambda: {"CPU", "HPU"} if records else {"CPU"})  # fmt: skip
    seen: list[Any] = []
    profiling.profile_init(lambda *a, **k: seen.append((a, k)), "self", 1, activities=iter(asked), x=2)  # fmt: skip
    works = known and records
    expected = asked if kept is None else [*kept, "HPU"] if works else kept or ["CPU"]
    assert seen == [(("self", 1), {"activities": expected, "x": 2})]
    assert told == ["note HPU617"] * (kept is not None and not works)
    profiling.profile_init(lambda *a, **k: seen.append((a, k)), "self", activities=None)
    profiling.profile_init(lambda *a, **k: seen.append((a, k)), "self")
    assert seen[1:] == [(("self",), {"activities": None}), (("self",), {})]


@pytest.mark.parametrize(
    ("given", "passed", "says"),
    [({}, {}, False), ({"use_cuda": True}, {}, True), ({"use_cuda": False}, {}, False), ({"use_device": "cuda"}, {}, True), ({"use_device": "xpu"}, {"use_device": "xpu"}, False), ({"use_cuda": True, "use_device": "xpu", "a": 1}, {"a": 1}, True)],
)  # fmt: skip
def test_the_autograd_profiler_records_the_host(told: list[str], given: dict[str, Any], passed: dict[str, Any], says: bool) -> None:  # fmt: skip
    seen: list[Any] = []
    profiling.autograd_profile_init(lambda *a, **k: seen.append((a, k)), "self", 1, **given)
    assert seen == [(("self", 1), passed)] and told == ["note HPU618"] * says


@pytest.mark.parametrize(
    ("key", "fields", "found"),
    [
        ("cuda_time_total", (), "cpu_time_total"), ("cuda_time_total", ("device_time_total",), "device_time_total"), ("self_cuda_memory_usage", ("self_device_memory_usage",), "self_device_memory_usage"), ("hpu_time_total", ("device_time_total",), "device_time_total"),
        ("hpu_time_total", ("hpu_time_total",), "hpu_time_total"), ("cuda_time", ("cuda_time", "device_time"), "cuda_time"), ("cpu_time_total", ("device_time_total",), "cpu_time_total"), (None, (), None),
    ],
)  # fmt: skip
def test_what_a_table_is_sorted_by(key: str | None, fields: tuple[str, ...], found: str | None) -> None:  # fmt: skip
    events = [types.SimpleNamespace(**dict.fromkeys(fields, 1))]
    assert profiling.table(_original, events, key, 3, x=1) == (
        "original",
        events,
        found,
        3,
        {"x": 1},
    )
    bare = key.replace("cuda", "cpu").replace("hpu", "cpu") if key else key
    assert profiling.table(_original, [], key) == ("original", [], bare, {})


# One device is all of them


def test_sending_among_the_devices_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped: list[Any] = []
    monkeypatch.setattr(devices, "mapped", mapped.append)
    monkeypatch.setattr(devices, "INDEXED", "cpu")
    tensor, other = torch.ones(2), torch.zeros(2)
    assert [one.tolist() for one in comm.to_each(_original, tensor, [0])] == [[1.0, 1.0]]
    assert len(comm.to_each(_original, tensor, devices=[0])) == 1
    assert [[one.tolist() for one in some] for some in comm.broadcast_coalesced(_original, [tensor, other], [0])] == [[[1.0, 1.0], [0.0, 0.0]]]  # fmt: skip
    assert comm.reduce_add(_original, [tensor]) is tensor
    assert mapped[:3] == [0, 0, 0] and len(mapped) == 4
    assert comm.gather(_original, [tensor]).tolist() == [1.0, 1.0]
    refused: list[Any] = [
        lambda: comm.to_each(_original, tensor), lambda: comm.to_each(_original, tensor, [0, 1]), lambda: comm.to_each(_original, tensor, []), lambda: comm.to_each(_original, tensor, [0], out=other), lambda: comm.broadcast_coalesced(_original, [tensor], devices=[0, 1]),
        lambda: comm.reduce_add(_original, [tensor, other]), lambda: comm.gather(_original, [tensor, other]), lambda: comm.gather(_original, [tensor], out=other),
    ]  # fmt: skip
    for call in refused:
        with pytest.raises(UnsupportedOnHpu, match="HPU121"):
            call()


@pytest.mark.parametrize(("destination", "to_host"), [(-1, True), ("cpu", True), (torch.device("cpu"), True), (0, False), (None, False)])  # fmt: skip
def test_where_what_is_gathered_goes(monkeypatch: pytest.MonkeyPatch, destination: Any, to_host: bool) -> None:  # fmt: skip
    monkeypatch.setattr(devices, "mapped", lambda card: None)
    monkeypatch.setattr(devices, "INDEXED", "meta")
    assert comm.gather(_original, [torch.ones(2)], 0, destination).device.type == ("cpu" if to_host else "meta")  # fmt: skip


# The compiler and fused optimizers


@pytest.mark.parametrize(
    ("given", "passed", "says"),
    [
        ({}, {"backend": "hpu_backend"}, ["note HPU510"]), ({"backend": "inductor"}, {"backend": "hpu_backend"}, ["note HPU510"]), ({"backend": "eager"}, {"backend": "eager"}, []), ({"disable": True}, {"disable": True}, []), ({"disable": False}, {"disable": False, "backend": "hpu_backend"}, ["note HPU510"]),
        ({"backend": "cudagraphs", "mode": "x"}, {"backend": "hpu_backend", "mode": "x"}, ["warn HPU511"]), ({"mode": "max-autotune"}, {"backend": "hpu_backend"}, ["note HPU510", "note HPU511"]), ({"mode": "default", "options": None}, {"backend": "hpu_backend"}, ["note HPU510"]),
        ({"options": {"a": 1}, "dynamic": True}, {"backend": "hpu_backend", "dynamic": True}, ["note HPU510", "note HPU511"]),
    ],
)  # fmt: skip
def test_the_backend_of_the_compiler(told: list[str], given: dict[str, Any], passed: dict[str, Any], says: list[str]) -> None:  # fmt: skip
    assert of_compile.compile(_original, "model", **given) == ("original", "model", passed)
    assert told == says


@pytest.mark.parametrize(
    ("params", "there"),
    [
        (lambda t: [t], True), (lambda t: iter([torch.ones(1), t]), True), (lambda t: [{"params": t}], True), (lambda t: [{"params": iter([torch.ones(1), t])}], True), (lambda t: [("w", t)], True), (lambda t: [{"params": [("w", t)]}], True), (lambda t: [{"lr": 1}], False), (lambda t: [torch.ones(1)], False), (lambda t: [], False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("fused", [True, False, None])
def test_a_fused_kernel_is_for_parameters_on_the_host(told: list[str], params: Any, there: bool, fused: bool | None) -> None:  # fmt: skip
    seen: list[Any] = []
    given = params(_there())
    of_compile.optimizer_init(lambda *a, **k: seen.append((a, k)), "self", given, 0.1, fused=fused)
    off = bool(fused and there)
    (((_, passed, rate), how),) = seen
    assert (rate, how) == (0.1, {"fused": None if off else fused}) and told == ["warn HPU601"] * off
    left = [one for item in passed for one in (item.get("params", []) if isinstance(item, dict) else [item])] if fused else []  # fmt: skip
    assert not fused or len(left) == len([*params(_there())]) or isinstance(passed[0], dict), "nothing of it is used up"  # fmt: skip
    assert not (fused and there) or left


# Libraries of operators


class Library:
    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key


@pytest.mark.parametrize(
    ("ns", "own", "key", "users", "second"),
    [
        ("lib", "", "CUDA", True, "HPU"), ("lib", "", "AutogradCUDA", True, "AutogradHPU"), ("lib", "CUDA", "", True, "HPU"), ("lib", "", "CPU", True, None), ("lib", "", "", True, None), ("lib", "", "CUDA", False, None), ("aten", "", "CUDA", True, None), ("prims", "AutocastCUDA", "", True, None),
    ],
)  # fmt: skip
def test_a_kernel_for_cuda_is_one_for_hpu(told: list[str], monkeypatch: pytest.MonkeyPatch, ns: str, own: str, key: str, users: bool, second: str | None) -> None:  # fmt: skip
    names: list[Any] = []
    monkeypatch.setattr(callers, "outside", lambda *given: names.append(given) or ("mine" if users else "torch.library"))  # fmt: skip
    registered: list[Any] = []
    made = Library(ns, "IMPL", own)
    for _ in range(2):
        library.library_impl(lambda *a, **k: registered.append((a, k)), made, "op", "kernel", key, 1, x=2)  # type: ignore[arg-type]  # fmt: skip
    first = ((made, "op", "kernel", key, 1), {"x": 2})
    assert registered[0] == registered[1 if second is None else 2] == first
    reports = users and (key or own) in library._KEYS
    assert told == ["warn HPU711"] * 2 * reports
    assert not names or names[0] == library._MACHINERY
    if second is None:
        assert len(registered) == 2
        return
    (at, *rest), how = registered[1]
    assert (rest, how) == (["op", "kernel", second, 1], {"x": 2})
    assert at is registered[3][0][0]
    assert (at is made) if not own else (at.ns, at.kind, at.dispatch_key) == ("lib", "IMPL", "HPU")


# Properties of a device


@pytest.mark.parametrize(("text", "cores"), [("name='x', tpcEnabledMask=7)", 3), ("tpcEnabledMask=16777215", 24), ("xtpcEnabledMask=7", 0), ("tpcEnabledMask=0", 0), ("", 0)])  # fmt: skip
def test_the_cores_that_a_device_names(told: list[str], monkeypatch: pytest.MonkeyPatch, text: str, cores: int) -> None:  # fmt: skip
    hpu = types.SimpleNamespace(get_device_properties=lambda: text, mem_get_info=lambda: (1.0, 9.0), get_device_name=lambda: "GAUDI")  # fmt: skip
    monkeypatch.setattr(torch, "hpu", hpu, raising=False)
    monkeypatch.setattr(settings, "read", lambda name: "9")
    made = properties.of(hpu)
    assert (made.name, made.major, made.minor, made.total_memory, made.is_integrated, made.is_multi_gpu_board) == ("GAUDI", 9, 0, 9, 0, 0)  # fmt: skip
    with pytest.raises(AttributeError, match="HPU112 a Gaudi has no CUDA device property 'warp_size'"):  # fmt: skip
        made.warp_size  # noqa: B018
    described = properties.Description("text", made)
    assert (described, described.total_memory) == ("text", 9) and told == []
    if cores:
        assert (made.multi_processor_count, described.multi_processor_count) == (cores, cores)
        assert told == ["warn HPU112"] * 2
    else:
        with pytest.raises(AttributeError, match="'multi_processor_count'"):
            made.multi_processor_count  # noqa: B018
    monkeypatch.setattr(settings, "read", lambda name: "8.6")
    assert properties.capability() == (8, 6)


# How the shim decides


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine: what torch is built for, which software is there, what ``HPUSHIM`` says."""

    def set_up(mode: str, *, built: bool = False, cuda: bool = False, software: bool = False) -> None:  # fmt: skip
        monkeypatch.setattr(detect.settings, "read", lambda name: {"HPUSHIM": mode}.get(name, "2"))
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
        monkeypatch.setattr(detect, "gaudi_software", lambda: software)
        monkeypatch.setattr(detect, "_emulated", lambda: detect.Decision(True, "emulates", "emulated"))  # fmt: skip
        monkeypatch.setattr(detect, "_leave_it_to_the_toolkit", lambda wanted: detect.Decision(False, f"toolkit {wanted}"))  # fmt: skip

    return set_up


CARD = "this machine has a working CUDA device, so hpushim patches nothing"


@pytest.mark.parametrize(
    ("mode", "how", "expected"),
    [
        ("off", {"software": True}, (False, "HPUSHIM=off", None, True)), ("emulate", {}, (True, "emulates", "emulated", False)), ("emulate", {"software": True}, (True, "emulates", "emulated", False)), ("auto", {}, (False, f"this machine has neither a CUDA device nor a Gaudi; {detect._HOW_TO_EMULATE}", None, False)),
        ("auto", {"built": True, "cuda": True}, (False, CARD, None, True)), ("auto", {"cuda": True}, (False, f"this machine has neither a CUDA device nor a Gaudi; {detect._HOW_TO_EMULATE}", None, False)), ("auto", {"built": True}, (False, f"this machine has neither a CUDA device nor a Gaudi; {detect._HOW_TO_EMULATE}", None, False)),
        ("auto", {"software": True, "built": True, "cuda": True}, (False, CARD, None, True)), ("hpu", {}, "HPUSHIM=hpu, but habana_frameworks is not installed here"), ("emulate", {"built": True}, "is a CUDA build, which cannot host an hpu device"), ("auto", {"software": True, "built": True}, "is a CUDA build"), ("hpu", {"software": True, "built": True, "cuda": True}, "is a CUDA build"),
    ],
)  # fmt: skip
def test_what_is_decided(machine: Any, mode: str, how: dict[str, bool], expected: Any) -> None:
    machine(mode, **how)
    if isinstance(expected, str):
        with pytest.raises(HpushimError, match=expected):
            detect.decide()
    else:
        assert detect.decide() == expected


@pytest.mark.parametrize("toolkit", [True, False])
@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("wanted", ["auto", "hpu"])
def test_what_is_decided_on_a_gaudi(machine: Any, monkeypatch: pytest.MonkeyPatch, told: list[str], toolkit: bool, answers: bool, gone: bool, wanted: str) -> None:  # fmt: skip
    machine(wanted, software=True)
    done: list[Any] = []
    monkeypatch.setattr(vendor, "migration_toolkit", lambda: toolkit)
    monkeypatch.setattr(vendor, "require", lambda given: vendor.READS[-1:] if gone else ())
    monkeypatch.setattr(devices, "show_chosen_devices", lambda: done.append("shown"))
    monkeypatch.setattr(detect.importlib, "import_module", done.append)
    monkeypatch.setattr(torch, "hpu", types.SimpleNamespace(is_available=lambda: answers), raising=False)  # fmt: skip
    if toolkit:
        assert detect.decide() == (False, f"toolkit {wanted}", None, False) and done == []
        return
    if not answers:
        with pytest.raises(HpushimError, match="no Gaudi device answers"):
            detect.decide()
        return
    assert detect.decide() == (True, "this machine has a Gaudi", "gaudi", False)
    assert done == ["shown", vendor.PACKAGE] and told == ["warn HPU907"] * gone


@pytest.mark.parametrize("inherited", [True, False])
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("reason", ["", "a reason"])
def test_a_program_for_gaudi_gets_the_device_alone(monkeypatch: pytest.MonkeyPatch, inherited: bool, native: bool, reason: str) -> None:  # fmt: skip
    emulated: list[Any] = []
    monkeypatch.setattr(os, "environ", {"HPUSHIM": "emulate"})
    monkeypatch.setattr(import_hook, "is_inherited", lambda: inherited)
    monkeypatch.setattr(ported, "choice", lambda: ported.Choice(native, reason))
    monkeypatch.setattr(detect, "emulate", lambda: emulated.append(1))
    found = detect._emulated()
    if native and not inherited:
        assert found == (False, reason, "emulated", False) and os.environ["HPUSHIM"] == "off"
    else:
        why = f"HPUSHIM=emulate; {reason}" if reason and not inherited else "HPUSHIM=emulate"
        assert found == (True, why, "emulated", False) and os.environ["HPUSHIM"] == "emulate"
    assert emulated == [1]


def test_two_tools_would_undo_each_other() -> None:
    with pytest.raises(HpushimError, match="unset it to use hpushim, or start"):
        detect._leave_it_to_the_toolkit("hpu")
    found = detect._leave_it_to_the_toolkit("auto")
    assert (found.on, found.device, found.quiet) == (False, None, False)
    assert found.reason.startswith("PT_HPU_GPU_MIGRATION=1 leaves CUDA calls to Intel's")


@pytest.mark.parametrize("works", [True, False])
def test_a_script_that_needs_cuda(machine: Any, works: bool) -> None:
    machine("auto", built=True, cuda=works)
    assert detect.cuda_works() is works
    if works:
        detect.require_cuda()
    else:
        with pytest.raises(HpushimError, match="is a CUDA build"):
            detect.require_cuda()
    machine("auto", cuda=True)
    assert not detect.cuda_works()
    detect.require_cuda()
    assert detect.device_count() == 2 and detect.generation() == "2"


def test_what_a_release_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def space(names: list[str]) -> Any:
        top = types.SimpleNamespace()
        for name in names:
            holder = top
            *above, last = name.split(".")[1:]
            for part in above:
                if not hasattr(holder, part):
                    setattr(holder, part, types.SimpleNamespace())
                holder = getattr(holder, part)
            setattr(holder, last, 1)
        return top

    names = [read.name for read in vendor.READS if read.name.startswith("torch.hpu.")]
    monkeypatch.setattr(vendor, "_release", lambda: "release x")
    assert vendor.require(space(names)) == ()
    gone = vendor.require(space([name for name in names if name not in ("torch.hpu.set_stream", "torch.hpu.random.seed")]))  # fmt: skip
    assert [read.name for read in gone] == ["torch.hpu.set_stream", "torch.hpu.random.seed"]
    assert vendor.explained(gone) == "the Gaudi software here (release x) has no torch.hpu.set_stream (for torch.cuda.set_stream); torch.hpu.random.seed (for torch.cuda.seed): a CUDA call that needs it will raise"  # fmt: skip
    with pytest.raises(HpushimError, match=r"the Gaudi software here \(release x\) has no torch.hpu.Stream, torch.hpu.Event, without which"):  # fmt: skip
        vendor.require(space([name for name in names if name not in ("torch.hpu.Stream", "torch.hpu.Event", "torch.hpu.set_stream")]))  # fmt: skip


@pytest.mark.parametrize(("known", "said"), [("habana-torch-plugin", "habana-torch-plugin 1.2"), ("habana_torch_plugin", "habana-torch-plugin 1.2"), ("", "of an unknown release")])  # fmt: skip
def test_the_release_of_the_software(monkeypatch: pytest.MonkeyPatch, known: str, said: str) -> None:  # fmt: skip
    def version(name: str) -> str:
        if name != known:
            raise importlib.metadata.PackageNotFoundError
        return "1.2"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert vendor._release() == said


@pytest.mark.parametrize(
    ("internal", "variable", "lazy"),
    [(types.SimpleNamespace(is_lazy=lambda: 1), "0", True), (types.SimpleNamespace(is_lazy=lambda: 0), "1", False), (types.SimpleNamespace(), "1", True), (ImportError, " 1 ", True), (ImportError, "0", False), (ImportError, None, False), (ImportError, "x", False)],
)  # fmt: skip
def test_whether_the_bridge_is_lazy(monkeypatch: pytest.MonkeyPatch, internal: Any, variable: str | None, lazy: bool) -> None:  # fmt: skip
    marked: list[str] = []

    def load(name: str) -> Any:
        if internal is ImportError:
            raise ImportError
        return internal if name == f"{vendor.PACKAGE}.utils.internal" else types.SimpleNamespace(mark_step=lambda: marked.append(name))  # fmt: skip

    monkeypatch.setattr(importlib, "import_module", load)
    monkeypatch.delenv("PT_HPU_LAZY_MODE", raising=False)
    if variable is not None:
        monkeypatch.setenv("PT_HPU_LAZY_MODE", variable)
    assert vendor.is_lazy() is lazy
    vendor.mark_step()
    assert marked == ([] if internal is ImportError else [f"{vendor.PACKAGE}.core"])
