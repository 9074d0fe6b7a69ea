"""What stands in the place of torch's calls, called by itself: what is asked of the device, what comes back, what is said."""

from __future__ import annotations

import json
import os
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from hpushim.errors import HpushimError, UnsupportedOnHpu
from hpushim.shim import log, summary
from hpushim.shim.mechanisms import in_place
from hpushim.shim.patches import amp, memory
from hpushim.shim.patches import random as of_random
from hpushim.shim.patches import ray as of_ray
from hpushim.shim.run import notebook

INSIDE: dict[str, Any] = {"InUse": 7, "MaxInUse": 9, "NumAllocs": 5, "NumFrees": 3}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of the device, and what the log is told."""
    found: list[Any] = []

    def noting(name: str, answer: Any = None) -> Any:
        return lambda *args: (found.append((name, *args)), answer)[1]

    generator = types.SimpleNamespace(
        manual_seed_all=noting("seed all"), seed=noting("seed"), initial_seed=lambda: 3.0, get_rng_state=lambda: torch.zeros(4), set_rng_state=lambda state: found.append(("restored", state.tolist())),
    )  # fmt: skip
    hpu = types.SimpleNamespace(
        memory_allocated=lambda: 5.0, max_memory_allocated=lambda: 6.0, memory_stats=lambda: dict(INSIDE), memory_summary=lambda: "table", mem_get_info=lambda: (3.0, 10.0),
        reset_peak_memory_stats=noting("peaks"), reset_accumulated_memory_stats=noting("counts"), random=generator,
    )  # fmt: skip
    monkeypatch.setattr(torch, "hpu", hpu, raising=False)
    for level in ("note", "warn"):
        monkeypatch.setattr(log, level, lambda code, text, level=level: found.append((level, code)))
    return found


def _own(*args: Any, **kwargs: Any) -> Any:
    return ("own", args, kwargs)


def test_counters_are_those_of_the_device(asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    plain = [memory.memory_allocated, memory.max_memory_allocated, memory.memory_reserved, memory.max_memory_reserved, memory.get_per_process_memory_fraction, memory.mem_get_info, memory.memory_summary]  # fmt: skip
    answers = [function(_own) for function in plain]
    assert answers == [5, 6, 5, 6, 1.0, (3, 10), "table"]
    assert [type(one) for one in (*answers[:4], *answers[5])] == [int] * 6
    with pytest.raises(ValueError, match=r"^Expected a cuda device, but got: cpu$"):
        memory.memory_allocated(_own, "cpu")
    resets = [memory.reset_peak_memory_stats(_own), memory.reset_accumulated_memory_stats(_own), memory.nothing_to_give_back(_own), memory.set_per_process_memory_fraction(_own, 0.5)]  # fmt: skip
    assert (resets, asked) == ([None] * 4, [("peaks",), ("counts",)])
    assert memory.get_allocator_backend(_own) == "native"
    stats = memory.memory_stats(_own)
    for kind in ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes"):
        for pool, share in (("all", 1), ("small_pool", 0), ("large_pool", 1)):
            assert [stats[f"{kind}.{pool}.{what}"] for what in ("current", "peak", "allocated", "freed")] == [7 * share, 9 * share, 0, 0]  # fmt: skip
    assert [stats[f"allocation.all.{what}"] for what in ("allocated", "freed", "current")] == [5, 3, 2]  # fmt: skip
    assert (stats["num_alloc_retries"], stats["num_ooms"], stats["another"], len(stats)) == (0, 0, 0, 53)  # fmt: skip
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: {"a.b.c": 1, "a.b.d": 2, "e": 3})
    assert memory.memory_stats_as_nested_dict(_own) == {"a": {"b": {"c": 1, "d": 2}}, "e": 3}
    monkeypatch.setitem(INSIDE, "NumFrees", 8)
    for name in ("InUse", "MaxInUse"):
        monkeypatch.delitem(INSIDE, name)
    less = memory.memory_stats(_own)
    assert (less["allocated_bytes.all.current"], less["allocated_bytes.all.peak"], less["allocation.all.current"]) == (5, 6, 0)  # fmt: skip
    for function in (memory.no_history, memory.no_raw_memory):
        with pytest.raises(UnsupportedOnHpu, match=r"^HPU4\d\d .*; "):
            function(_own)


def test_seeds_and_states_are_those_of_the_one_generator(asked: list[Any]) -> None:
    of_random.manual_seed(_own, 3.7)  # type: ignore[arg-type]
    of_random.seed(_own)
    assert (of_random.initial_seed(_own), of_random.get_rng_state(_own).tolist()) == (3, [0.0] * 4)
    assert [one.tolist() for one in of_random.get_rng_state_all(_own)] == [[0.0] * 4]
    assert asked == [("seed all", 3), ("seed",)]
    asked.clear()
    of_random.set_rng_state(_own, torch.ones(4))
    of_random.set_rng_state_all(_own, [torch.ones(4) * 2, torch.ones(4) * 3])
    of_random.set_rng_state_all(_own, [])
    of_random.set_rng_state(_own, torch.ones(5))
    assert asked == [("restored", [1.0] * 4), ("restored", [2.0] * 4), ("warn", "HPU408")]
    assert of_random.default_generators("now") == ("n", "o", "w")
    torch.hpu.random.default_generators = ["one"]  # type: ignore[attr-defined]
    assert of_random.default_generators("now") == ("one",)


@pytest.mark.parametrize(
    ("args", "kwargs", "given", "said"),
    [
        (("cuda",), {}, {"device_type": "hpu", "dtype": None}, ["HPU202"]), (("cuda", torch.float16), {}, {"device_type": "hpu", "dtype": torch.bfloat16}, ["HPU203", "HPU202"]), (("hpu", torch.bfloat16), {}, {"device_type": "hpu", "dtype": torch.bfloat16}, ["HPU202"]),
        (("cuda",), {"dtype": torch.float32}, {"device_type": "hpu", "dtype": None, "enabled": False}, []), (("cuda", torch.float16, False), {}, {"device_type": "hpu", "dtype": None, "enabled": False}, []),
        ((), {"device_type": "cuda:0", "enabled": True, "cache_enabled": False}, {"device_type": "hpu", "dtype": None, "enabled": True, "cache_enabled": False}, ["HPU202"]),
        (("cpu", torch.bfloat16), {}, None, []), ((), {}, None, []), (("cuda", None, True, True, 5), {}, None, []), (("cuda",), {"device_type": "cpu"}, None, []),
    ],
)  # fmt: skip
def test_autocast_for_cuda_is_that_of_the_device(asked: list[Any], args: Any, kwargs: Any, given: Any, said: list[str]) -> None:  # fmt: skip
    found: list[Any] = []
    amp.autocast_init(lambda self, *a, **k: found.append((self, a, k)), "region", *args, **kwargs)
    assert found == [("region", args, kwargs) if given is None else ("region", (), given)]
    assert [code for _, code in asked] == said


@pytest.mark.parametrize(("kwargs", "given"), [({}, {}), ({"device_type": "cuda"}, {"device_type": "hpu"}), ({"device_type": "cpu", "cast_inputs": torch.float16}, {"device_type": "cpu", "cast_inputs": torch.bfloat16}), ({"device_type": None, "cast_inputs": None}, {"device_type": None, "cast_inputs": None}), ({"cast_inputs": torch.float32}, {"cast_inputs": torch.float32})])  # fmt: skip
def test_functions_of_ones_own_follow_autocast(asked: list[Any], kwargs: Any, given: Any) -> None:
    assert amp.custom(_own, 1, **kwargs) == ("own", (1,), given)
    assert amp.amp_not_available(_own) is False


@pytest.mark.parametrize("device", ["cuda", "hpu", "cpu"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("slope", [1.0, float("inf"), float("nan"), None])
def test_a_scaler_skips_what_is_not_finite_and_scales_nothing(asked: list[Any], device: str, enabled: bool, slope: float | None) -> None:  # fmt: skip
    def init(self: Any, device: str = "cuda", init_scale: float = 2.0, growth_factor: float = 3.0, backoff_factor: float = 0.5, growth_interval: int = 7, enabled: bool = True) -> None:  # fmt: skip
        self.made = (device, enabled)

    one = types.SimpleNamespace()
    amp.scaler_init(init, one, device, growth_factor=4.0, enabled=enabled)
    ours = enabled and device != "cpu"
    assert one.made == ("hpu" if ours else device, enabled and not ours)
    state = {"scale": 2.0, "growth_factor": 4.0, "backoff_factor": 0.5, "growth_interval": 7, "_growth_tracker": 0}  # fmt: skip
    assert amp.scaler_state(_own, one) == (state if ours else ("own", (one,), {}))
    assert getattr(one, "_growth_factor", None) == (4.0 if ours else None)
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    parameters[1].grad = torch.zeros(2)
    if slope is not None:
        parameters[2].grad = torch.tensor([1.0, slope])
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    asked.clear()
    skips = ours and slope not in (None, 1.0)
    done = amp.scaler_step(_own, one, optimizer, 5)
    assert done == (None if skips else ("own", (one, optimizer, 5), {}))
    assert asked == [("note", "HPU205")] * skips
    amp.load_scaler_state(_own, one, {"scale": 64.0})
    assert amp.scaler_state(_own, one) == ({**state, "scale": 64.0} if ours else ("own", (one,), {}))  # fmt: skip
    assert amp._finite(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)) is True


@pytest.mark.parametrize("before", [None, "mine"])
@pytest.mark.parametrize("later", ["same", "another", None])
def test_ray_offers_the_devices_under_another_name_too(asked: list[Any], monkeypatch: pytest.MonkeyPatch, before: str | None, later: str | None) -> None:  # fmt: skip
    name = of_ray._RESOURCES
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    torch.hpu.device_count = lambda: 8.0  # type: ignore[attr-defined]
    undo = of_ray.gpus_are_devices()
    if before is not None:
        assert (undo, os.environ[name], asked) == (None, "mine", [])
        return
    assert undo is not None and (os.environ[name], asked) == ('{"GPU": 8}', [("note", "HPU716")])
    if later == "another":
        os.environ[name] = "other"
    elif later is None:
        del os.environ[name]
    assert undo() is (later == "same")
    assert name not in os.environ


@pytest.mark.parametrize("processes", [0, 1, 2])
@pytest.mark.parametrize("notes", [True, False])
def test_the_summary_counts_notes_of_all_processes(processes: int, notes: bool) -> None:
    rows = [{"code": "HPU1", "text": "a", "site": "x:1", "count": 2}, {"code": "HPU2", "text": "b", "site": "x:2", "count": 3}]  # fmt: skip
    last = [{"code": "HPU1", "text": "a", "site": "y:1", "count": 5}]
    found = summary.text_of([rows if notes else [], last if notes else []][:processes])
    head = "summary of this run" + {0: ", 0 processes", 1: "", 2: ", 2 processes"}[processes]
    told = {1: ["     3  HPU2 b (first at x:2)", "     2  HPU1 a (first at x:1)"], 2: ["     7  HPU1 a (first at x:1)", "     3  HPU2 b (first at x:2)"]}.get(processes if notes else 0)  # fmt: skip
    assert found.splitlines() == ([f"{head}:", *told] if told else [f"{head}: nothing was approximated"])  # fmt: skip


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("folder", ["there", "gone", ""])
def test_the_process_that_leads_tells_what_the_others_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leads: bool, folder: str) -> None:  # fmt: skip
    said: list[str] = []
    row = {"code": "HPU1", "text": "a", "site": "x:1", "count": 2}
    monkeypatch.setattr(log, "leads", lambda: leads)
    monkeypatch.setattr(log, "fired", lambda: [row])
    monkeypatch.setattr(log, "line", said.append)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "7").write_text(json.dumps([row]))
    monkeypatch.setenv(summary.FOLDER_VARIABLE, str(tmp_path / folder) if folder else "")
    summary._end()
    tells = leads and folder == "there"
    assert said == (["summary of this run, 2 processes:\n     4  HPU1 a (first at x:1)"] if tells else [])  # fmt: skip
    assert (tmp_path / "there").is_dir() is not tells
    mine = tmp_path / "there" / str(os.getpid())
    assert mine.is_file() is (folder == "there" and not leads)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("x = 1", "x = 1"), ("!ls -l", "C.shell('ls -l')"), ("!!ls", "C.shell('ls')"), ("  !ls", "  C.shell('ls')"), ("# !ls\n!ls", "# !ls\nC.shell('ls')"), ("%matplotlib inline", "pass"), ("%time f()", "f()"), ("%time", "pass"), ("%pip install x", "C.shell('pip install x')"),
        ("%cd a b", "C.go('a b')"), ("%env A=b c", "C.set('A', 'b c')"), ("%set_env A b", "C.set('A', 'b')"), ("%env A", None), ("%run x.py", None), ("x = !ls", None), ("x, y = %pwd", None), ("x = y % z", "x = y % z"),
        ("%%bash\nls\npwd", "C.shell('ls\\npwd', 'bash')"), ("\n# a\n%%sh\nls", "\n\nC.shell('ls', 'sh')"), ("%%writefile a b\nx", "C.write('a b', 'x')"), ("%%time\nf()\n!ls", "\nf()\nC.shell('ls')"), ("%%html\nx", None),
        ("x = \'\'\'\n!ls\'\'\'", "x = \'\'\'\n!ls\'\'\'"), ('x = """\n!ls\n"""\n!pwd', 'x = """\n!ls\n"""\nC.shell(\'pwd\')'), ("x = 1 \\\n%y", "x = 1 \\\n%y"), ("\'\'\'a\'\'\'\n!ls", "\'\'\'a\'\'\'\nC.shell('ls')"), ("x = \'\'\'\ny = !ls\'\'\'", "x = \'\'\'\ny = !ls\'\'\'"),
    ],
)  # fmt: skip
def test_a_cell_without_the_syntax_of_notebooks(text: str, plain: str | None) -> None:
    if plain is None:
        with pytest.raises(HpushimError, match=r"^n.ipynb, cell 3, line 1: `.*` is IPython's"):
            notebook._plain(text, "n.ipynb, cell 3")
    else:
        assert notebook._plain(text, "n").replace(notebook._FUNCTION, "C") == plain


def test_what_stands_for_a_function_is_called_as_it_is() -> None:
    def original() -> None:
        """What it does."""

    made = in_place._as_function(lambda: None, original)
    names = ("__name__", "__qualname__", "__doc__", "__module__")
    assert [getattr(made, name) for name in names] == [getattr(original, name) for name in names]
    assert made.__wrapped__ is original
    assert in_place._as_function(lambda: None, types.SimpleNamespace()).__name__ == "<lambda>"
