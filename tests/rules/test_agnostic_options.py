"""The agnostic style: options and defaults that are devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from agnostic import body, written, written_for

from hpushim.engine.project import analyse, migrate
from hpushim.model import Target


def test_a_default_of_a_command_is_resolved_in_its_body() -> None:
    text = "import click\n@click.command()\n@click.option('--seed')\ndef main(seed, device=torch.device('cuda')):\n    return torch.zeros(2, device=device)"
    assert "device=None):\n    if device is None:\n        device = accelerator or error" in body(
        text
    )


DEFAULTS = {
    "an option": 'def main():\n    p = argparse.ArgumentParser()\n    p.add_argument("--device", default={0})\n    args = p.parse_args([])\n    return torch.zeros(1, device=args.device)',
    "an option beside unknown ones": 'def main():\n    p = argparse.ArgumentParser()\n    p.add_argument("--place", dest="device", default={0})\n    args, rest = p.parse_known_args([])\n    return torch.zeros(1, device=args.device)',
    "options that are returned": 'def read():\n    p = argparse.ArgumentParser()\n    p.add_argument("--device", default={0})\n    return p.parse_args([])\ndef main():\n    return torch.zeros(1, device=read().device)',
    "a field": "@dataclass\nclass Config:\n    device: str = {0}\ndef main():\n    return torch.zeros(1, device=Config().device)",
    "a field with more": '@dataclass\nclass Config:\n    device: str = field(default={0}, metadata={{"help": "where"}})\ndef main():\n    return torch.zeros(1, device=Config().device)',
    "a field of devices": "@dataclass\nclass Config:\n    device: torch.device = torch.device({0})\ndef main():\n    return torch.zeros(1, device=Config().device)",
    "a parameter": "def make(device={0}):\n    return torch.zeros(1, device=device)\ndef main():\n    return make()",
}  # fmt: skip


@pytest.mark.parametrize("text", ['"cuda"', '"cuda:0"'])
@pytest.mark.parametrize("declared", DEFAULTS)
def test_a_default_is_looked_up_when_it_is_used(declared: str, text: str) -> None:
    head = "import argparse\nfrom dataclasses import dataclass, field\nimport torch\n"
    after = written(f"{head}{DEFAULTS[declared].format(text)}\n").text
    assert "cuda" not in after and "hpu" not in after
    names: dict[str, Any] = {}
    asked = mock.Mock(side_effect=RuntimeError)
    with mock.patch.object(torch.accelerator, "is_available", asked):
        exec(compile(after, "train.py", "exec", dont_inherit=True), names)
    there = mock.patch.object(torch.accelerator, "is_available", return_value=True)
    with there, mock.patch.object(torch.accelerator, "current_accelerator", lambda: torch.device("meta")):  # fmt: skip
        assert names["main"]().device.type == "meta"


def test_a_field_that_is_read_from_its_class_stays() -> None:
    code = 'from dataclasses import dataclass\nimport torch\n@dataclass\nclass Config:\n    device: str = "cuda"\nx = torch.zeros(1, device=Config.device)\n'
    assert written(code).text == code


def test_a_member_that_is_picked_by_its_value_stays() -> None:
    code = 'import enum\nimport torch\nclass Kind(str, enum.Enum):\n    CPU = "cpu"\n    GPU = "cuda"\nkind = Kind("cuda") if torch.cuda.is_available() else Kind.CPU\nx = torch.ones(2, device=kind.value)\n'
    assert written(code).text == code


@pytest.mark.parametrize(
    "declared",
    [
        'p = argparse.ArgumentParser()\nsub = p.add_subparsers()\none = sub.add_parser("one")\none.add_argument("--device", default="cuda")\nargs = p.parse_args([])\n',
        'p = argparse.ArgumentParser()\np.add_argument("--device", type=torch.device, default="cuda")\nargs = p.parse_args([])\n',
        '@dataclass\nclass Config:\n    device: str = chosen(default="cuda")\n',
    ],
)
def test_a_default_that_other_code_turns_into_something_stays(declared: str) -> None:
    code = f"import argparse\nfrom dataclasses import dataclass\nimport torch\n{declared}"
    assert written(code).text == code


@pytest.mark.parametrize("option", ["--cuda", "--use_cuda", "--use-cuda"])
@pytest.mark.parametrize("text", ["you should run with {0}", "You have a CUDA device: run with {0}", "see {0}."])  # fmt: skip
def test_a_message_names_the_option_by_its_new_name(option: str, text: str) -> None:
    dest = option.lstrip("-").replace("-", "_")
    code = f'import argparse\np = argparse.ArgumentParser()\np.add_argument("{option}", action="store_true")\nargs = p.parse_args()\nif torch.cuda.is_available() and not args.{dest}:\n    print("{text.format(option)}")'
    after = body(code)
    assert text.format(option.replace("cuda", "accel")).replace("a CUDA", "an accelerator") in after
    assert f'"{option}"' in after


#: What is done with the options of a program, and whether ``args.device`` may be another text for it than CUDA's.
USES = {
    "device = torch.device(args.device)": True,
    "print(vars(args))": True,
    'torch.save({"net": net.state_dict(), "step": 3}, p)': True,
    'use = args.device == "cuda"': False,
    'use = "cuda" == args.device': False,
    'device = "cuda:0" if torch.cuda.is_available() and args.device != "cuda" else "cpu"': False,
    'use = args.device.startswith("cuda")': False,
    'use = "cuda" in args.device': False,
    'use = args.device in ("cuda", "gpu")': False,
    'torch.save({"net": net.state_dict(), "args": args}, p)': False,
    'torch.save({"net": net, "args": vars(args)}, p)': False,
    "json.dump(vars(args), f)": False,
    "yaml.safe_dump(args.__dict__, f)": False,
    "f.write(json.dumps(vars(args), indent=2))": False,
    "pickle.dump(args, f)": False,
    "mp.spawn(work, nprocs=2, args=(2, args))": False,
    "Process(target=work, args=(args,)).start()": False,
    "executor.submit(work, args)": False,
}
PARSED = {
    "in place": 'args = p.parse_args()\n{0}\n',
    "in a function": 'def read():\n    p = argparse.ArgumentParser()\n    p.add_argument("--device", default="cuda")\n    return p.parse_args()\n\n\ndef main():\n    args = read()\n    {0}\n',
}  # fmt: skip


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("parsed", PARSED)
@pytest.mark.parametrize("use", USES)
def test_a_default_stays_where_its_text_is_compared_kept_or_sent(tmp_path: Path, use: str, parsed: str, apart: bool) -> None:  # fmt: skip
    """The text of the machine that reads the options is no default of another one, or of a later run."""
    text = "import argparse\nimport torch\n\np = argparse.ArgumentParser()\n"
    text += "" if "function" in parsed else 'p.add_argument("--device", default="cuda")\n'
    files = {"other.py": f"import torch\n\n\ndef run(args, net, p, f):\n    {use}\n"} if apart else {}  # fmt: skip
    after = written_for(tmp_path, files, text + PARSED[parsed].format("pass" if apart else use))
    assert ("default=None" in after) is USES[use]
    said = [f.message for file in analyse([tmp_path], Target(style="agnostic")).files for f in file.findings if f.code == "HPU013" and not f.fix]  # fmt: skip
    reason = "compares `.device` with it" if "device" in use else "saves its options, or sends"
    assert [reason in each and "no neutral form" not in each for each in said] == [True] * (not USES[use])  # fmt: skip


@pytest.mark.parametrize(("option", "new"), [("--no-cuda", "--no-accel"), ("--use_cuda", "--use_accel"), ("--disable-cuda", "--disable-accel"), ("--not_cuda_benchmark", ""), ("--not_set_cuda_env", ""), ("--cuda-graphs", ""), ("--cuda-version", "")])  # fmt: skip
@pytest.mark.parametrize("more", ["", ', help="on the GPU"'])
def test_an_option_gets_a_name_only_where_it_chooses_the_device(option: str, new: str, more: str) -> None:  # fmt: skip
    text = f'import argparse\nimport torch\n\np = argparse.ArgumentParser()\np.add_argument("{option}", action="store_true"{more})\n'
    assert (f'"{new or "accel"}"' in written(text).text) is bool(new)


#: Where the number of a device is from, and whether it may be None.
NUMBERS = {
    'p.add_argument("--gpu", type=int)': True,
    'p.add_argument("--gpu", default=None, type=int, help="a card")': True,
    'p.add_argument("--gpu", type=int, default = None)': True,
    'p.add_argument("--gpu", type=int, default=\n    None)': True,
    'p.add_argument("--gpu", type=int, nargs="?")': True,
    'p.add_argument("--gpu", type=int, nargs="?", default = 0)': False,
    'p.add_argument("--gpu", default = 0, type=int)': False,
    'p.add_argument("--gpu", default=0, type=int)': False,
    'p.add_argument("--gpu", type=int, required=True)': False,
    'p.add_argument("gpu", type=int)': False,
    "gpu = 3": False,
}


@pytest.mark.parametrize("use", ["def f(x, gpu):\n    return x.cuda(gpu)\n", "def f(x, args):\n    return x.cuda(args.gpu, non_blocking=True)\n"])  # fmt: skip
@pytest.mark.parametrize("declared", NUMBERS)
def test_a_number_that_callers_may_leave_out_is_the_current_device(tmp_path: Path, declared: str, use: str) -> None:  # fmt: skip
    files = {"train.py": f"import argparse\nimport torch\nfrom net import f\n\np = argparse.ArgumentParser()\n{declared}\n", "net.py": f"import torch\n\n\n{use}"}  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert ("gpu is not None else" in (tmp_path / "net.py").read_text()) is NUMBERS[declared]


@pytest.mark.parametrize("use", ["return x.cuda({0})", "return x.cuda(device={0}, non_blocking=True)", "return self.apply(lambda y: torch.relu(y).cuda(device={0}))"])  # fmt: skip
@pytest.mark.parametrize(
    ("taken", "none"), [("{0}=None", True), ("{0}='cuda'", False), ("{0}", False)]
)
@pytest.mark.parametrize("name", ["device", "gpu", "dev"])
@pytest.mark.parametrize(
    "filled", ["", "if {0} is None:\n            {0} = torch.device('cpu')\n        "]
)
def test_a_device_that_may_be_left_out_is_the_current_one(use: str, taken: str, none: bool, name: str, filled: str) -> None:  # fmt: skip
    text = f"import torch\n\n\nclass A(torch.nn.Module):\n    def f(self, x: torch.Tensor, {taken.format(name)}):\n        {filled.format(name)}{use.format(name)}\n"
    after = written(text).text
    assert (f"{name} is not None else" in after) is (none and not filled)
    assert ".cuda(" not in after
