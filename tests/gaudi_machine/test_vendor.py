"""What the shim reads of the vendor's package: the list is whole, and each name was tried there, gone and different."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hpushim
from hpushim.shim.vendor import READS

SHIM = Path(hpushim.__file__).parent / "shim"
NAMES = {read.name for read in READS}
# Spelled in advice, in comparisons of texts and in the list itself, not read.
NOT_READ = {"HPUGraph", "memory_summary", "random"}


def _sources() -> list[Path]:
    return [
        path
        for path in SHIM.rglob("*.py")
        if path.name != "vendor.py" and "startup" not in path.parts
    ]


def test_the_list_names_everything_that_the_shim_reads() -> None:
    spelled = set()
    for path in _sources():
        for line in path.read_text(encoding="utf-8").splitlines():
            code = re.sub(r'"[^"]*"', '""', line.partition("#")[0])
            if code.lstrip().startswith('"""') or not code.strip():
                continue
            spelled |= {
                name.rstrip(".") for name in re.findall(r"\btorch\.hpu\.(?:random\.)?\w+", code)
            }
            spelled |= set(re.findall(r"import_module\(\"(habana_frameworks[\w.]*)\"", line))
            spelled |= set(re.findall(r"^\s*from (habana_frameworks[\w.]*) import", line))
    spelled -= {f"torch.hpu.{name}" for name in NOT_READ}
    assert spelled - NAMES == set()
    text = "".join(path.read_text(encoding="utf-8") for path in _sources())
    by_name = {name for name in NAMES if name.startswith("torch.hpu.")} - spelled
    unused = {
        name for name in by_name if not re.search(rf"\b{name.rpartition('.')[2]}\b\"?[,(]", text)
    }
    assert unused == set(), "listed, and read by nobody"


@pytest.fixture(scope="module")
def outcomes(machine) -> dict[str, list[str]]:  # type: ignore[no-untyped-def]
    done = machine.run("python", Path(__file__).with_name("reads_script.py"))
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _called() -> list[str]:
    return sorted(
        read.name
        for read in READS
        if read.absent == "the call raises" and read.name.startswith("torch.hpu.")
    )


@pytest.mark.parametrize("name", _called())
def test_a_call_works_raises_or_passes_on_what_it_meets(outcomes, name: str) -> None:
    present, absent, different = outcomes[name]
    assert present == "ok"
    # the error names what is missing
    assert absent.startswith("AttributeError") and f"'{name.rpartition('.')[2]}'" in absent, absent
    # what the vendor's function raises reaches the caller as it is
    assert (
        different in ("Other: another signature in this release", "ok") or "TypeError" in different
    ), different


USE = "import hpushim, torch\nprint(torch.ones(2, device='cuda').sum().item())\n"


@pytest.mark.parametrize("name", [read.name for read in READS if read.absent == "refuses"][1:])
def test_without_it_nothing_starts_and_it_is_said(script, name: str) -> None:
    done = script(USE, check=False, PRETEND_WITHOUT=name)
    assert done.returncode != 0
    assert f"has no {name}, without which hpushim cannot work" in done.stderr
    assert "habana-torch-plugin 1.21.0.555" in done.stderr and "HPUSHIM=off" in done.stderr


def test_what_is_missing_is_said_at_the_start(script) -> None:
    done = script(USE, PRETEND_WITHOUT="torch.hpu.mem_get_info,torch.hpu.random.seed")
    assert done.stdout.strip() == "2.0"
    (line,) = [line for line in done.stderr.splitlines() if "HPU907" in line]
    assert (
        "torch.hpu.mem_get_info (for torch.cuda.mem_get_info" in line
        and "torch.hpu.random.seed" in line
    )


def test_it_starts_where_everything_that_only_calls_need_is_missing(script) -> None:
    done = script(
        USE, PRETEND_WITHOUT=",".join([*_called(), "torch.hpu.random.default_generators"])
    )
    assert done.stdout.strip() == "2.0"


LAZY = """
import hpushim, torch
w = torch.ones(2, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
w.sum().backward()
optimizer.step()
print(w.tolist())
"""


@pytest.mark.parametrize("lazy", ["0", "1"])
@pytest.mark.parametrize(
    "gone",
    [
        "habana_frameworks.torch.utils.internal.is_lazy",
        "habana_frameworks.torch.core.mark_step",
        "",
    ],
)
def test_marks_do_without(script, gone: str, lazy: str) -> None:
    done = script(LAZY, PT_HPU_LAZY_MODE=lazy, PRETEND_WITHOUT=gone)
    assert done.stdout.startswith("[0.8999"), done.stdout


def test_a_mark_of_another_kind_says_what_it_raises(script) -> None:
    different = json.dumps({"habana_frameworks.torch.core.mark_step": "lambda: 1 / 0"})
    done = script(LAZY, check=False, PT_HPU_LAZY_MODE="1", PRETEND_DIFFERENT=different)
    assert "ZeroDivisionError" in done.stderr and "script.py" in done.stderr


@pytest.mark.parametrize(("lazy", "order"), [("1", "mark back mark step"), ("0", "back step")])
def test_each_backward_pass_and_each_step_ends_with_a_mark(script, lazy: str, order: str) -> None:
    marks = json.dumps({"habana_frameworks.torch.core.mark_step": "lambda: print('mark', end=' ')"})
    code = LAZY.replace(".backward()", ".backward(); print('back', end=' ')").replace("print(w", "print('step', w")  # fmt: skip
    done = script(code, PT_HPU_LAZY_MODE=lazy, PRETEND_DIFFERENT=marks)
    assert done.stdout.startswith(f"{order} [0.8999"), done.stdout


PROCESS_GROUP = """
import hpushim, torch
import torch.distributed as dist
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:{port}", rank=0, world_size=1)
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
print(x.tolist())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("gone", ["", "habana_frameworks.torch.distributed.hccl"])
def test_collectives_do_without_the_module(script, free_port: int, gone: str) -> None:
    done = script(PROCESS_GROUP.format(port=free_port), PRETEND_WITHOUT=gone)
    assert done.stdout.strip() == "[1.0, 1.0]"


def test_without_the_vendors_optimizers_the_call_says_so(script) -> None:
    code = """
    import hpushim, torch
    from apex.optimizers import FusedLAMB
    try:
        FusedLAMB(torch.nn.Linear(2, 2).cuda().parameters(), lr=0.1)
    except ImportError as error:
        print("ImportError", error)
    else:
        print("made")
    """
    assert script(code).stdout.strip() == "made"
    done = script(code, PRETEND_WITHOUT="habana_frameworks.torch.hpex.optimizers")
    assert done.stdout.startswith("ImportError") and "hpex.optimizers" in done.stdout


def test_a_broken_installation_says_its_own_error(script) -> None:
    different = json.dumps({"torch.hpu.x": "1 / 0"})  # the package fails while it is imported
    for order in ("import hpushim\nimport torch", "import torch\nimport hpushim"):
        done = script(f"{order}\nprint('here')", check=False, PRETEND_DIFFERENT=different)
        assert done.returncode != 0 and "ZeroDivisionError" in done.stderr
