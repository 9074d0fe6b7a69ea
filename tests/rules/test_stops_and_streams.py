"""What stops on Gaudi is told where the code comes to it, and only of what it is about."""

from __future__ import annotations

import pytest
from one_text import settled, severities

from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Target

BEHIND = {
    "if torch.version.cuda is not None and {0}: pass\n": False,
    "if torch.version.cuda and (x > 1 and {0}): pass\n": False,
    "if torch.version.cuda is None or {0}: pass\n": False,
    "y = {0} if torch.version.cuda != None else 0\n": False,
    "y = 0 if not torch.version.cuda else {0}\n": False,
    "if torch.version.hip is None and torch.version.cuda:\n    for i in range(2):\n        y = {0}\n": False,
    "if torch.version.cuda is None:\n    y = 0\nelse:\n    y = {0}\n": False,
    "if torch.version.cuda is None and {0}: pass\n": True,
    "if {0} and torch.version.cuda: pass\n": True,
    "if torch.version.cuda is None or x:\n    y = 0\nelse:\n    y = {0}\n": False,
    "if torch.version.cuda or x:\n    y = {0}\n": True,
    "if torch.version.cuda:\n    pass\nelse:\n    y = {0}\n": True,
    "if torch.version.hip is None:\n    y = {0}\n": True,
}
ASKED = ["torch.cuda.get_device_capability()[0] >= 8", "(8, 0) <= torch.cuda.get_device_capability(0)"]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("form", BEHIND)
def test_an_answer_that_cuda_alone_asks_for_is_no_stop(form: str, asked: str) -> None:
    text = "import torch\n\nx = torch.zeros(3).cuda()\n" + form.format(asked)
    assert ("error" in severities(text, "HPU113")) == BEHIND[form]


STREAMS = {
    "torch.cuda.current_stream().cuda_stream": True,
    "torch.cuda.Stream().cuda_stream": True,
    "self.stream.cuda_stream": True,
    "s = torch.cuda.Stream()\nf(s.cuda_stream)": True,
    "copy_stream.cuda_stream": True,
    "model.cuda_stream": False,
    "self.cuda_stream": False,
    "self.model.cuda_stream": False,
    "made().cuda_stream": False,
}


@pytest.mark.parametrize("use", ["{0}", "{0}.synchronize()", "with torch.cuda.stream({0}): pass"])
@pytest.mark.parametrize("read", STREAMS)
def test_a_pointer_of_a_stream_is_read_from_a_stream(read: str, use: str) -> None:
    *before, last = read.split("\n")
    text = "\n".join(["import torch", *before, use.format(last), ""])
    assert ("HPU119" in settled(text)[1]) == STREAMS[read]


DEVICES = {
    "use_cuda=True": ["error"],
    "use_cuda=False": [],
    "use_cuda=args.cuda": ["error"],
    'use_device="cuda"': ["error"],
    'use_device="cuda:0"': ["error"],
    'use_device="cpu"': [],
    'use_device="hpu"': [],
    'use_device="xpu"': [],
    "use_device=None": [],
    "use_device=x.device.type": ["warning"],
    "use_device=args.device": ["warning"],
}


@pytest.mark.parametrize("profile", ["torch.autograd.profiler.profile", "torch.profiler.profile"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_device_of_the_profiler(device: str, profile: str) -> None:
    text = f"import torch\n\nwith {profile}({device}) as prof:\n    pass\n"
    assert severities(text, "HPU618") == DEVICES[device]


FLAG = {"python a.py {0} --x": 1, "python a.py {0}": 1, "python a.py {0} True": 1, "python a.py {0} False": 0}  # fmt: skip


@pytest.mark.parametrize("form", FLAG)
def test_a_flag_for_cuda_wherever_it_stands(form: str) -> None:
    assert settled(form.format("--tf32") + "\n", "shell", "run.sh")[1].count("HPU806") == FLAG[form]


LINES = {
    "A := $(shell python a.py --device cuda:0) $(shell python b.py --device cuda:0)\n": "A := $(shell python a.py --device hpu:0) $(shell python b.py --device hpu:0)\n",
    "A := $(strip $(shell python a.py --device cuda:0)) # $(shell python b.py --device cuda:0)\n": "A := $(strip $(shell python a.py --device hpu:0)) # $(shell python b.py --device cuda:0)\n",
    "# A := $(shell python a.py --device cuda:0)\n": "# A := $(shell python a.py --device cuda:0)\n",
    "A := $(shell" + " " * 4000 + "\n": "A := $(shell" + " " * 4000 + "\n",
}


@pytest.mark.parametrize("line", LINES)
def test_each_command_that_make_runs_in_a_line(line: str) -> None:
    assert settled(line, "makefile", "Makefile")[0] == LINES[line]


@pytest.mark.parametrize("summed", ["i + " * 900 + "i", "i + (j + " * 20 + "i" + ")" * 20])
def test_a_slice_to_a_long_sum(summed: str) -> None:
    text = f"import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x, i, j):\n        return x[i : {summed}].cuda()\n"
    found = examine(text, "python", "net.py", Context(Target(), load()))
    assert "HPU004" not in [each.code for each in found]
