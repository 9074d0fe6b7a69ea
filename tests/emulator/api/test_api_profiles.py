"""Profiles: what each generation does with dtypes and operators, and the three policies on it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hpushim.emulator import profiles
from hpushim.errors import EmulatorError
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.plan.estimate import estimate
from hpushim.plan.observed import Observed

pytest.importorskip("torch")


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., profiles.Profile]:
    for name in (
        "HPUSHIM_GAUDI",
        "HPUSHIM_STACK",
        "HPUSHIM_POLICY",
        "PT_HPU_LAZY_MODE",
        "PT_ENABLE_INT64_SUPPORT",
    ):
        monkeypatch.delenv(name, raising=False)

    def current(**env: str) -> profiles.Profile:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return profiles.current()

    return current


def test_defaults(profile: Callable[..., profiles.Profile]) -> None:
    found = profile()
    assert (found.gaudi, found.policy, found.lazy, found.lazy_default) == (
        "gaudi2",
        "observe",
        False,
        "0",
    )
    assert found.device_name == "GAUDI2"


@pytest.mark.parametrize("gaudi", ["gaudi1", "gaudi2", "gaudi3"])
def test_memory_is_the_matrixs_here_as_in_a_plan(
    profile: Callable[..., profiles.Profile], gaudi: str
) -> None:
    info = load().generations[gaudi]
    assert profile(HPUSHIM_GAUDI=gaudi).memory_bytes == info.memory_bytes
    planned = estimate(Observed(world=8), load(), Target(gaudi))
    assert planned.memory == info.memory_bytes


@pytest.mark.parametrize(
    ("stack", "lazy"), [("1.19", True), ("1.20", True), ("1.21", False), ("1.24", False)]
)
def test_an_unset_mode_follows_the_release(
    profile: Callable[..., profiles.Profile], stack: str, lazy: bool
) -> None:
    assert profile(HPUSHIM_STACK=stack).lazy is lazy
    assert profile(PT_HPU_LAZY_MODE="1").lazy
    assert not profile(PT_HPU_LAZY_MODE="0").lazy


@pytest.mark.parametrize(
    ("gaudi", "lazy", "asked", "wide"),
    [
        ("gaudi1", "0", "", False),
        ("gaudi1", "0", "1", False),
        ("gaudi2", "0", "", True),
        ("gaudi2", "0", "0", False),
        ("gaudi2", "1", "", False),
        ("gaudi2", "1", "1", True),
        ("gaudi3", "0", "1", True),
    ],
)
def test_how_wide_integers_are(
    profile: Callable[..., profiles.Profile], gaudi: str, lazy: str, asked: str, wide: bool
) -> None:
    settings = {"PT_ENABLE_INT64_SUPPORT": asked} if asked else {}
    found = profile(HPUSHIM_GAUDI=gaudi, PT_HPU_LAZY_MODE=lazy, **settings)
    assert found.wide_integers is wide
    assert found.dtype("int64") == (("native", "int64") if wide else ("demoted", "int32"))


def test_the_largest_value_of_eight_bits(profile: Callable[..., profiles.Profile]) -> None:
    largest = {g: profile(HPUSHIM_GAUDI=g).largest("float8_e4m3fn") for g in ("gaudi2", "gaudi3")}
    assert largest == {"gaudi2": 240.0, "gaudi3": 448.0}
    assert profile(HPUSHIM_GAUDI="gaudi3").largest("float8_e5m2") == 57344.0
    with pytest.raises(KeyError):
        profile(HPUSHIM_GAUDI="gaudi1").largest("float8_e4m3fn")


@pytest.mark.parametrize(
    ("gaudi", "lazy", "expected"),
    [
        ("gaudi1", "0", {"float16": "refused", "int64": "demoted", "float8_e4m3fn": "refused"}),
        ("gaudi2", "0", {"float16": "native", "int64": "native", "float8_e4m3fn": "native"}),
        ("gaudi2", "1", {"float16": "native", "int64": "demoted", "float8_e4m3fn": "native"}),
        ("gaudi3", "0", {"float16": "native", "int64": "native", "float8_e4m3fnuz": "refused"}),
    ],
)
def test_dtypes(
    profile: Callable[..., profiles.Profile], gaudi: str, lazy: str, expected: dict[str, str]
) -> None:
    found = profile(HPUSHIM_GAUDI=gaudi, PT_HPU_LAZY_MODE=lazy)
    always = {
        "float32": "native",
        "bfloat16": "native",
        "float64": "demoted",
        "complex64": "refused",
    }
    for dtype, rule in {**always, **expected}.items():
        assert found.dtype(dtype)[0] == rule, dtype
    assert found.dtype("float64")[1] == "float32"


def test_operators(profile: Callable[..., profiles.Profile]) -> None:
    first = profile(HPUSHIM_GAUDI="gaudi1")
    assert first.falls_back("aten::_linalg_svd")
    assert not first.falls_back("aten::mm", ("float32",))
    assert first.falls_back("aten::mm", ("float16",))
    assert not first.falls_back("aten::mm", ("float64",)), "it reaches the kernel as float32"
    assert first.fails("aten::_flash_attention_forward")
    assert not first.falls_back("aten::no_such_operator")
    assert not profile(HPUSHIM_GAUDI="gaudi3").falls_back("aten::mm", ("float16",))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HPUSHIM_GAUDI", "gaudi9", "expected one of gaudi1, gaudi2, gaudi3"),
        ("HPUSHIM_POLICY", "loose", "expected one of observe, faithful, strict"),
        ("HPUSHIM_STACK", "0.1", "expected a release that the matrix knows"),
    ],
)
def test_wrong_settings(
    profile: Callable[..., profiles.Profile], name: str, value: str, message: str
) -> None:
    with pytest.raises(EmulatorError, match=message):
        profile(**{name: value})


PROGRAM = """
    import json, os, sys
    from hpushim.emulator import enable, ledger
    enable(os.environ["HPUSHIM_GAUDI"])
    import torch

    def attempt(work):
        ledger.reset()
        try:
            found = work()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        books = ledger.snapshot()
        return [found, books["demotions"], books["fallback_operators"]]

    print(json.dumps({
        "double": attempt(lambda: torch.full((2,), 1 / 3, dtype=torch.float64).to("hpu")[0].item()),
        "in place": attempt(lambda: torch.ones(2, dtype=torch.float64, device="hpu").div_(3)[0].item()),
        "long": attempt(lambda: (torch.tensor([2**31 - 1]).to("hpu") + 1).item()),
        "far": attempt(lambda: torch.tensor([2**40]).to("hpu").item()),
        "half": attempt(lambda: torch.ones(2, dtype=torch.float16, device="hpu").sum().item()),
        "complex": attempt(lambda: torch.ones(2, dtype=torch.complex64, device="hpu").shape[0]),
        "svd": attempt(lambda: torch.linalg.svdvals(torch.eye(2, device="hpu")).sum().item()),
        "plain": attempt(lambda: (torch.ones(2, 2, device="hpu") @ torch.ones(2, 2, device="hpu")).sum().item()),
    }))
"""
SVD = {"aten::_linalg_svd": 1}


@pytest.fixture
def objections(run: Callable[..., object]) -> Callable[..., dict[str, list[object]]]:
    def found(**env: str) -> dict[str, list[object]]:
        done = run(PROGRAM, **env)
        return json.loads(done.stdout)  # type: ignore[attr-defined, no-any-return]

    return found


def test_observing_changes_nothing_and_records(
    objections: Callable[..., dict[str, list[object]]],
) -> None:
    found = objections(HPUSHIM_GAUDI="gaudi1", HPUSHIM_POLICY="observe")
    assert found["double"] == [1 / 3, 1, {}]
    assert found["in place"][0] == 1 / 3
    assert found["long"] == [2**31, 1, {}], "counted once for each line"
    assert found["far"] == [2**40, 1, {}]
    assert found["half"][0] == 2.0
    assert found["complex"][0] == 2
    assert found["svd"] == [2.0, 0, SVD]
    assert found["plain"] == [8.0, 0, {}]


def test_a_faithful_device_narrows_and_refuses(
    objections: Callable[..., dict[str, list[object]]],
) -> None:
    found = objections(HPUSHIM_GAUDI="gaudi1", HPUSHIM_POLICY="faithful")
    narrow = 0.3333333432674408
    assert found["double"][0] == narrow
    assert found["in place"][0] == narrow
    assert found["long"][0] == -(2**31)
    assert "values do not fit: int64 is kept as int32 on gaudi1 (emulated HPU)" in str(
        found["far"][0]
    )
    assert "float16 tensors are refused on gaudi1 (emulated HPU)" in str(found["half"][0])
    assert "complex64 tensors are refused" in str(found["complex"][0])
    assert found["svd"] == [2.0, 0, SVD], "a fallback is right, and slow"
    assert found["plain"] == [8.0, 0, {}]


def test_generations_differ(objections: Callable[..., dict[str, list[object]]]) -> None:
    second = objections(HPUSHIM_GAUDI="gaudi2", HPUSHIM_POLICY="faithful")
    assert second["half"][0] == 2.0
    assert second["long"] == [2**31, 0, {}]
    lazy = objections(HPUSHIM_GAUDI="gaudi2", HPUSHIM_POLICY="faithful", PT_HPU_LAZY_MODE="1")
    assert lazy["long"][0] == -(2**31)


def test_forbidden_fallbacks_are_errors(objections: Callable[..., dict[str, list[object]]]) -> None:
    setting = {"HPUSHIM_GAUDI": "gaudi2", "HPUSHIM_POLICY": "faithful"}
    found = objections(**setting, PT_HPU_PLACE_ON_CPU="none")
    assert (
        "aten::_linalg_svd has no kernel on gaudi2 and PT_HPU_PLACE_ON_CPU forbids the CPU"
        in str(found["svd"][0])
    )
    found = objections(**setting, PT_HPU_PLACE_ON_CPU="topk,_linalg_svd")
    assert found["svd"][0] == 2.0


def test_strict_names_the_line(run: Callable[..., object], tmp_path: object) -> None:
    script = tmp_path / "train.py"  # type: ignore[operator]
    script.write_text(
        "from hpushim.emulator import enable\n"
        "enable()\n"
        "import torch\n"
        "x = torch.ones(3, device='hpu')\n"
        "torch.linalg.svdvals(x.reshape(1, 3))\n"
    )
    done = run(
        f"import runpy; runpy.run_path({str(script)!r})", check=False, HPUSHIM_POLICY="strict"
    )
    assert done.returncode == 1  # type: ignore[attr-defined]
    assert f"{script}:5: aten::_linalg_svd runs on the CPU on gaudi2" in done.stderr  # type: ignore[attr-defined]


def test_memory_ends_with_the_device(run: Callable[..., object]) -> None:
    code = """
        from hpushim.emulator import enable
        enable("gaudi1")
        import torch
        assert torch.hpu.memory_stats()["Limit"] == (32 << 30) // 2, torch.hpu.memory_stats()
        try:
            torch.empty(17 << 30, dtype=torch.uint8, device="hpu")
        except torch.OutOfMemoryError as error:
            print(error)
    """
    done = run(code, PT_HPU_POOL_MEM_ACQUIRE_PERC="50")
    assert "emulated" in done.stdout  # type: ignore[attr-defined]
