"""What an object is, and which file is a program, in forms that unseen repositories showed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from one_text import settled, severities

from hpushim.engine.project import analyse
from hpushim.model import Target

OWN = "import torch\n\n\nclass Wrap{0}:\n    def cuda(self):\n        self.net.cuda()\n\n    def predict(self, x):\n        return self.net(x)\n\n    def train(self):\n        pass\n"
USES = {
    "model.cuda()\n    model.predict(x)": True,
    "model.cuda()\n    return [model.predict(one) for one in x]": True,
    "self.model.cuda()\n    self.model.predict(x)": True,
    "model.cuda()\n    model.train()": False,  # torch's modules have it as well
    "model.cuda()\n    other.predict(x)": False,
    "x.cuda()\n    model.predict(x)": False,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("base", ["", "(object)", "(Base)"])
def test_a_class_that_moves_itself_is_known_by_its_methods(tmp_path: Path, use: str, base: str) -> None:  # fmt: skip
    (tmp_path / "wrap.py").write_text(OWN.format(base))
    (tmp_path / "use.py").write_text(
        f"import torch\n\n\nclass A:\n    def f(self, model, other, x):\n        {use.replace('    ', '        ')}\n"
    )
    found = [f.code for file in analyse([tmp_path], target=Target()).files if file.path == "use.py" for f in file.findings]  # fmt: skip
    assert ("HPU011" in found, "HPU103" in found) == (USES[use], not USES[use])


SIZES = {
    "label.data.eq(1).nonzero().squeeze().cuda()": True,
    "label.eq(1).nonzero().cuda()": True,
    "label.eq(1).nonzero().to(x.device).index_add_(0, x, x)": True,
    "label.eq(1).nonzero()": False,
    "label.unique().squeeze(1).detach()": True,
    "label.unique().tolist()": False,
    "label.eq(1).nonzero().cuda": True,
}


@pytest.mark.parametrize("made", SIZES)
@pytest.mark.parametrize("own", ["", "class P:\n    def cuda(self):\n        pass\n\n\n"])
def test_what_is_used_as_a_tensor_has_the_size_of_its_data(made: str, own: str) -> None:
    text = f"import torch\n\n\n{own}def f(x, label):\n    for _ in x:\n        y = {made}\n        x.to('cuda')\n    return y\n"
    moved_alone = ".cuda" in made and bool(own)
    assert ("HPU515" in settled(text)[1]) == (SIZES[made] and not moved_alone)


ACCELERATORS = {
    "from deepspeed.accelerator import get_accelerator\nd = get_accelerator()": False,
    "import deepspeed\nd = deepspeed.accelerator.get_accelerator()": False,
    "from deepspeed import get_accelerator\nd = get_accelerator()": False,
    "import torch\nd = torch.get_device_module('cuda')": True,
    "import torch\nd = getattr(torch, kind)": True,
}


@pytest.mark.parametrize("made", ACCELERATORS)
@pytest.mark.parametrize("method", ["empty_cache", "memory_reserved"])
def test_an_accelerator_of_deepspeed_is_no_module_of_torch(made: str, method: str) -> None:
    codes = settled(f"import torch\n{made}\n\nx = torch.ones(2).cuda()\nd.{method}()\n")[1]
    assert ("HPU421" in codes) == (ACCELERATORS[made] and method == "empty_cache")


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("made", ["for each in self.parts:\n            y = each(x)", "y = self.parts[0](x)", "y = make(x)"])  # fmt: skip
def test_a_method_of_the_projects_own_is_no_tensors(made: str, own: bool) -> None:
    mode = "class Fixed(torch.distributions.Categorical):\n    def mode(self):\n        return self.probs\n\n\n" if own else ""  # fmt: skip
    text = f"import torch\n\n\n{mode}class A(torch.nn.Module):\n    def forward(self, x):\n        {made}\n        return y.mode()\n\n\nmodel = A().cuda()\n"
    assert "HPU118" not in settled(text)[1] or not own


#: How processes are started, and whether they are the ranks of a group.
STARTS = {
    "from torch.multiprocessing import Process\np = Process(target=run, args=(0,))": True,
    "import torch.multiprocessing as mp\np = mp.Process(target=run, args=(0,))": True,
    "import multiprocessing\np = multiprocessing.Process(None, run)": True,
    "from multiprocessing import Process\np = Process(target=load)": False,
    "import multiprocessing as mp\np = mp.Process(target=other.load)": False,
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("group", ["own file", "other file"])
def test_processes_that_form_a_group_are_told_how_to_start(tmp_path: Path, start: str, group: str) -> None:  # fmt: skip
    makes = "import torch\nimport torch.distributed as dist\n\n\ndef run(rank):\n    dist.init_process_group('nccl')\n    torch.ones(2).cuda()\n"
    (tmp_path / "ranks.py").write_text(makes)
    head = "from ranks import run\nimport other, torch\n\n\ndef load():\n    pass\n\n\n"
    if group == "own file":
        head = makes + "\n\n"
        start = start.replace("other.load", "run").replace("target=load", "target=run")
    (tmp_path / "main.py").write_text(f"{head}{start}\np.start()\n")
    found = [f.code for file in analyse([tmp_path], target=Target()).files if file.path == "main.py" for f in file.findings]  # fmt: skip
    assert ("HPU316" in found) == STARTS.get(start, True)


@pytest.mark.parametrize("base", ["nn.DataParallel", "torch.nn.parallel.DataParallel"])
@pytest.mark.parametrize(("method", "stops"), [("scatter", True), ("gather", False), ("forward", False)])  # fmt: skip
@pytest.mark.parametrize("between", ["", "class Mine({0}):\n    pass\n\n\n"])
def test_a_wrapper_that_divides_its_inputs_stops(base: str, method: str, stops: bool, between: str) -> None:  # fmt: skip
    mine = "Mine" if between else base
    text = f"import torch\nfrom torch import nn\n\n\n{between.format(base)}class Own({mine}):\n    def {method}(self, *args):\n        return args\n\n\ndef f(net):\n    return Own(net).cuda()\n"
    assert ("error" in severities(text, "HPU308")) == stops


BUILDS = {
    "from distutils.version import LooseVersion": False,
    "import distutils.util": False,
    "from distutils.dir_util import copy_tree": False,
    "from distutils.core import setup": True,
    "from setuptools import setup, find_packages": True,
    "import setuptools": True,
}


@pytest.mark.parametrize("imported", BUILDS)
@pytest.mark.parametrize("late", [False, True])
def test_a_program_imports_the_bridge_where_it_imports_torch(imported: str, late: bool) -> None:
    head = f"{imported}\n" + ("" if late else "import torch\n")
    inner = "    import torch\n" if late else ""
    text = f"{head}\n\ndef main():\n{inner}    print(torch.cuda.device_count())\n\n\nif __name__ == '__main__':\n    main()\n"
    done, codes = settled(text)
    assert ("HPU520" in codes) == (not BUILDS[imported])
    indent = "    " if late else ""
    needed = f"{indent}import torch\n{indent}import habana_frameworks.torch.core as htcore\n"
    assert (needed in done) == (not BUILDS[imported])


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ("if kind == 'cuda':\n        torch.cuda.synchronize()", False),
        ("if x.device.type == 'cuda':\n        torch.cuda.synchronize()", False),
        ("torch.cuda.synchronize()", True),
        ("x.cuda()", True),
        ("x.to('cuda')", True),
        ("if kind == 'cuda':\n        pass\n    x.to('cuda')", True),
    ],
)
def test_a_test_imports_the_bridge_where_it_uses_a_device(line: str, needs: bool) -> None:
    text = f"import torch\n\n\ndef test_a(kind='cpu'):\n    x = torch.ones(2).to(kind)\n    {line}\n"  # fmt: skip
    assert ("HPU520" in settled(text, name="test_a.py")[1]) == needs


def test_a_device_that_is_only_handed_on_is_no_device(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("import torch\nfrom moves import move, copy\n\nx = torch.ones(2).cuda()\ngpu = 1\nmove(x, gpu)\ncopy(x, gpu)\n")  # fmt: skip
    (tmp_path / "moves.py").write_text(
        "def move(obj, device, stream=None):\n    if obj:\n        return obj\n\n    return [move(o, device, stream) for o in obj]\n\n\n"
        "def copy(obj, device):\n    return [copy(o, device) for o in obj] or obj.to(device)\n"
    )
    found = [f.span for file in analyse([tmp_path], target=Target()).files for f in file.findings if f.code == "HPU105"]  # fmt: skip
    assert len(found) == 1


KEYS = ["states = {{'torch.cuda': 1}}\n    x = states[{0}]", "states = {{}}\n    states[{0}] = 1\n    x = states['torch.cuda']", "states = {{}}\n    states[{0}] = 1"]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_the_name_of_an_entry_is_not_told(key: str) -> None:
    text = f"import torch\n\n\ndef f():\n    {key.format(repr('torch.cuda'))}\n    torch.ones(2).cuda()\n"
    assert "HPU010" not in settled(text)[1]


@pytest.mark.parametrize("test", ["storage.device.type == 'cuda'", "storage.is_cuda"])
def test_a_check_of_cudas_handles_stays(test: str) -> None:
    text = f"import torch\n\n\ndef f(storage):\n    torch.ones(2).cuda()\n    if {test}:\n        return storage._share_cuda_()\n    return None\n"
    done, codes = settled(text)
    assert test in done
    assert {"HPU028", "HPU125", "HPU106"} & {*codes}


TABLES = {
    "**{0}": "",
    "**options": "options = {0}",
    "**self.options": "self.options = {0}",
    "**tables['train']": "tables = {{'train': {0}}}",
    "**({0} if x else {{}})": "",
    "**{{**rest, **{0}}}": "rest = {{}}",
}


@pytest.mark.parametrize("handed", TABLES)
@pytest.mark.parametrize("table", ["{'fp16': True}", "dict(fp16=True)", "{'fp16': False}", "{'bf16': True}"])  # fmt: skip
@pytest.mark.parametrize("made", ["TrainingArguments('out', {0})", "Seq2SeqTrainingArguments({0})", "Other({0})"])  # fmt: skip
def test_a_setting_counts_in_a_table_as_by_its_name(handed: str, table: str, made: str) -> None:
    line = f"    {TABLES[handed].format(table)}\n" if TABLES[handed] else ""
    text = f"import torch\nfrom transformers import Seq2SeqTrainingArguments, TrainingArguments\nfrom other import Other\n\n\ndef f(self, x):\n    x.cuda()\n{line}    return {made.format(handed.format(table))}\n"
    told = "True" in table and "fp16" in table and "Other" not in made
    assert settled(text)[1].count("HPU209") == told


@pytest.mark.parametrize(
    ("imported", "after"),
    [
        ("from torch.amp import autocast, GradScaler", "GradScaler"),
        ("from torch.amp import GradScaler as Scaler", "Scaler"),
        ("from torch.amp.grad_scaler import GradScaler", "GradScaler"),
        ("import torch.amp", "torch.amp.GradScaler"),
        ("from torch.cuda.amp import GradScaler", "torch.amp.GradScaler"),
    ],
)
@pytest.mark.parametrize("given", ["", "'cuda'", "'cuda', enabled=True", "device='cuda'"])
def test_a_scaler_keeps_the_general_name_that_it_has(imported: str, after: str, given: str) -> None:
    name = after if "cuda.amp" not in imported else "GradScaler"
    given = "" if "cuda.amp" in imported else given
    text = f"import torch\n{imported}\n\n\nclass A:\n    def __init__(self, model):\n        self.model = model.cuda()\n        self.scaler = {name}({given})\n"
    done = settled(text)[0].replace("'", '"')
    assert re.search(rf"self.scaler = ({re.escape(after)}|GradScaler)\((device=)?\"hpu\", enabled=False\)\n", done)  # fmt: skip
