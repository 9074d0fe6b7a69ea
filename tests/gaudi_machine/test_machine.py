"""What may be wrong with a Gaudi machine, or special: no driver, no free card, several cards, the vendor's own toolkit."""

from __future__ import annotations

import json

import pytest

USE = "import hpushim, torch\nprint(torch.ones(2, device='cuda').sum().item())\n"
NO_DEVICE = "the Gaudi software is installed, but no Gaudi device answers"


@pytest.mark.parametrize("order", ["import hpushim\nimport torch", "import torch\nimport hpushim"])
def test_without_a_driver_it_is_said_and_nothing_runs(script, order: str) -> None:
    done = script(f"{order}\nprint('ran')", check=False, PRETEND_CARDS="0")
    assert done.returncode != 0 and "ran" not in done.stdout
    assert NO_DEVICE in done.stderr and "hl-smi" in done.stderr and "HPUSHIM=off" in done.stderr


def test_the_advice_for_no_driver_works(script) -> None:
    done = script(
        "import hpushim, torch\nprint(torch.cuda.is_available(), torch.ones(1).item())",
        PRETEND_CARDS="0",
        HPUSHIM="off",
    )
    assert done.stdout.split() == ["False", "1.0"]


def test_a_run_without_a_driver_is_one_line(machine, tmp_path) -> None:
    (tmp_path / "train.py").write_text("print('ran')")
    done = machine.run("hpushim", "run", tmp_path / "train.py", PRETEND_CARDS="0")
    assert done.returncode == 2 and "ran" not in done.stdout
    assert NO_DEVICE in done.stderr and "Traceback" not in done.stderr


def test_doctor_sees_the_missing_driver(machine) -> None:
    done = machine.run("hpushim", "doctor", PRETEND_CARDS="0")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("gaudi devices")]
    assert "problem" in line and "finds none" in line
    assert machine.run("hpushim", "doctor").stdout.count("problem") == 0


@pytest.mark.parametrize("way", ["script", "run"])
def test_a_busy_card_says_its_own_error_at_the_users_line(machine, script, way: str) -> None:
    words = ("hpushim", "run") if way == "run" else ("python",)
    done = script(USE, *words, check=False, PRETEND_BUSY="1")
    assert done.returncode == 1
    assert "Device acquire failed" in done.stderr.splitlines()[-1]
    assert "script.py" in done.stderr and "line 2" in done.stderr


def test_several_cards_are_counted_and_one_is_held(script) -> None:
    done = script(
        """
        import hpushim, torch
        print(torch.cuda.device_count(), torch.cuda.current_device(), torch.ones(1, device="cuda:3").device)
        """,
        PRETEND_CARDS="8",
    )
    assert done.stdout.split() == ["8", "0", "hpu:0"]


def test_chosen_cards_are_said_in_the_vendors_variable(script) -> None:
    done = script(
        "import hpushim, torch, os\nprint(os.environ['HABANA_VISIBLE_MODULES'])",
        CUDA_VISIBLE_DEVICES="2,3",
        PRETEND_CARDS="8",
    )
    assert done.stdout.strip() == "2,3"


# ---- the vendor's migration toolkit


def test_the_vendors_toolkit_is_left_alone(script) -> None:
    done = script(
        """
        import hpushim, torch
        print(torch.ones(2).cuda().device.type, hpushim.status()["active"])
        import habana_frameworks.torch.gpu_migration as toolkit
        assert torch.cuda.is_available.__module__ == toolkit.__name__
        """,
        PT_HPU_GPU_MIGRATION="1",
    )
    assert done.stdout.split() == ["hpu", "False"]
    assert (
        "off: PT_HPU_GPU_MIGRATION=1 leaves CUDA calls to Intel's GPU migration toolkit"
        in done.stderr
    )


@pytest.mark.parametrize("order", ["vendor hpushim torch", "torch hpushim", "torch vendor hpushim"])
def test_the_vendors_toolkit_in_other_orders(script, order: str) -> None:
    imports = {
        "vendor": "import habana_frameworks.torch",
        "hpushim": "import hpushim",
        "torch": "import torch",
    }
    lines = "\n".join(imports[name] for name in order.split())
    done = script(f"{lines}\nprint(hpushim.status()['active'])", PT_HPU_GPU_MIGRATION="1")
    assert done.stdout.strip() == "False" and done.stderr.count("leaves CUDA calls") == 1


def test_both_asked_for_is_refused(machine, script, tmp_path) -> None:
    done = script(USE, check=False, PT_HPU_GPU_MIGRATION="1", HPUSHIM="hpu")
    assert "PT_HPU_GPU_MIGRATION=1 requests Intel's GPU migration toolkit" in done.stderr
    (tmp_path / "train.py").write_text("print('ran')")
    done = machine.run("hpushim", "run", tmp_path / "train.py", PT_HPU_GPU_MIGRATION="1")
    assert (
        done.returncode == 2
        and "unset it to use hpushim" in done.stderr
        and "ran" not in done.stdout
    )


def test_switched_off_the_toolkit_says_nothing(script) -> None:
    done = script(USE, PT_HPU_GPU_MIGRATION="0")
    assert done.stdout.strip() == "2.0" and "PT_HPU" not in done.stderr


# ---- other releases

RELEASES = {
    # what later or earlier releases lack, by what is public of them
    "without lazy mode": [
        "habana_frameworks.torch.hpu.graphs",
        "habana_frameworks.torch.core.step_closure",
        "habana_frameworks.torch.core.mark_step",
    ],
    "without private parts": [
        "habana_frameworks.torch.utils.internal",
        "habana_frameworks.torch.utils.experimental",
        "habana_frameworks.torch._hpex_C",
    ],
    "without the toolkit": ["habana_frameworks.torch.gpu_migration"],
    "without hpex": ["habana_frameworks.torch.hpex"],
}


@pytest.mark.parametrize("release", RELEASES)
def test_other_releases(script, release: str) -> None:
    code = """
    import hpushim, torch
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.ones(3, 4, device="cuda")).float().sum()
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    print(next(model.parameters()).device.type)
    """
    done = script(code, PRETEND_WITHOUT=",".join(RELEASES[release]))
    assert done.stdout.strip() == "hpu"


def test_a_release_with_names_that_this_one_lacks(script) -> None:
    more = {"torch.hpu.empty_cache": "lambda: None", "torch.hpu.is_initialized": "lambda: True"}
    done = script(
        "import hpushim, torch\ntorch.cuda.empty_cache()\nprint(torch.cuda.is_initialized())",
        PRETEND_DIFFERENT=json.dumps(more),
    )
    assert done.stdout.strip() == "True"
