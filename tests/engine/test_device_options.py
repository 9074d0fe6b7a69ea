"""An option that holds a device is written the same where it is declared, launched and configured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.model import Target

DECLARATIONS = [
    'parser.add_argument("--{0}", default="{1}", choices=["{1}", "cpu"])\n',
    "parser.add_argument('--{0}', choices=('cpu', '{1}'), default='cpu')\n",
    'parser.add_argument(\n    "-d", "--{0}", type=str,\n    choices=["{1}", "cpu"],\n    help="where (cuda or cpu)",\n)\n',
    'import click\n\n\n@click.option("--{0}", type=click.Choice(["{1}", "cpu"]), default="{1}")\ndef main(): ...\n',
]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
@pytest.mark.parametrize(
    "option", ["device", "where", "run-on", "accelerator", "gpu", "eval_device"]
)
@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_choices_launcher_and_settings_agree(
    tmp_path: Path, declaration: str, option: str, device: str
) -> None:
    declared = "import argparse\n\nimport torch\n\nparser = argparse.ArgumentParser()\n"
    (tmp_path / "train.py").write_text(declared + declaration.format(option, device), "utf-8")
    run, yaml = tmp_path / "run.sh", tmp_path / "conf.yaml"
    run.write_text(
        f"python train.py --{option} {device}\npython train.py --{option}={device}\n", "utf-8"
    )
    yaml.write_text(f"{option.replace('-', '_')}: {device}\n", "utf-8")
    migrate([tmp_path], Target(), jobs=1)
    choices = set(
        re.findall(r"[\"'](\w*pu(?::\d)?)[\"']", (tmp_path / "train.py").read_text("utf-8"))
    )
    assert len(choices - {"cpu"}) == 1
    given = re.findall(rf"--{option}[ =](\S+)", run.read_text("utf-8"))
    given += re.findall(r": (\S+)", yaml.read_text("utf-8"))
    assert len(given) == 3
    assert set(given) == choices - {"cpu"}
    assert "cuda" not in given[0]


@pytest.mark.parametrize("choices", ['["cuda", "triton"]', '["cuda", "native"]'])
def test_a_choice_of_kernels_is_no_device(tmp_path: Path, choices: str) -> None:
    (tmp_path / "train.py").write_text(f'import torch\nparser.add_argument("--impl", choices={choices})\n', "utf-8")  # fmt: skip
    run = tmp_path / "run.sh"
    run.write_text("export PT_HPU_LAZY_MODE=0\npython train.py --impl cuda\n", "utf-8")
    migrate([tmp_path], Target(), jobs=1)
    assert run.read_text("utf-8").endswith("--impl cuda\n")
