"""What a first page says first: the verdict, the pieces of work before training, and the programs that train."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.project import analyse
from hpushim.model import Style, Target
from hpushim.report.assessment import Assessment, assess
from hpushim.report.work import Work

STEP = "for x in data:\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"
MOVED = "import torch\nmodel = torch.nn.Linear(3, 1).cuda()\n"


def page(root: Path, files: dict[str, str]) -> Assessment:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return assess(analyse([root], target=Target()))


def piece(made: Assessment, start: str) -> Work | None:
    return next((each for each in made.summary.work if each.message.startswith(start)), None)


# -- what Lightning's settings ask for ------------------------------------------------------------

TRAINERS = {
    "arguments": ("pl.Trainer(accelerator='gpu'{0}).fit(model)", ", strategy='ddp'"),
    "table": ("options = {{'accelerator': 'gpu'{0}}}\npl.Trainer(**options).fit(model)", ", 'strategy': 'ddp'"),
    "settings": ("pl.Trainer(**cfg).fit(model)\n", "\nstrategy: ddp"),
}  # fmt: skip
#: The verdict with one device and with "ddp", by what is installed.
RELEASES = {
    "": ("needs work", "needs work"),
    "lightning==2.4.0\n": ("needs work", "needs work"),
    "lightning>=2.1,<2.5\n": ("needs work", "needs work"),
    "lightning==2.0.9\n": ("ready with --unsafe", "ready with --unsafe"),
}


@pytest.mark.parametrize(("trainer", "release", "several"), crossed(list(TRAINERS), list(RELEASES), [False, True]))  # fmt: skip
def test_what_lightning_is_asked_for_counts(tmp_path: Path, trainer: str, release: str, several: bool) -> None:  # fmt: skip
    code, strategy = TRAINERS[trainer]
    in_file = strategy if several and trainer != "settings" else ""
    files = {"train.py": f"import lightning as pl\n{code.format(in_file)}\n", "requirements.txt": release}  # fmt: skip
    if trainer == "settings":
        files["conf.yaml"] = f"accelerator: gpu{strategy if several else ''}\n"
    made = page(tmp_path, files).summary.verdict
    # In today's releases, which know no hpu, a safe rewrite of an argument settles it.
    assert made == ("ready" if not release and trainer != "settings" else RELEASES[release][several])  # fmt: skip


#: What a trainer is given beside "ddp", and whether its accelerator is Gaudi, or becomes that.
BESIDE = {", accelerator='gpu'": True, ", accelerator='cuda', devices=2": True, ", accelerator='hpu'": True, ", **{'accelerator': 'gpu'}": True, "": False, ", devices=2": False, ", accelerator='cpu'": False, ", accelerator='mps'": False, ", accelerator='auto'": False, ", accelerator=args.kind": False}  # fmt: skip


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
@pytest.mark.parametrize("form", ["pl.Trainer(strategy='ddp'{0})", "Trainer(strategy='ddp'{0})", "pl.Trainer(**dict(strategy='ddp'{0}))", "kind = 'ddp'\npl.Trainer(strategy=kind{0})"])  # fmt: skip
@pytest.mark.parametrize("beside", BESIDE)
def test_a_strategy_beside_another_accelerator_is_right(tmp_path: Path, beside: str, form: str, style: Style) -> None:  # fmt: skip
    text = f"import torch\nimport lightning as pl\nfrom lightning import Trainer\n{form.format(beside)}\n"
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "requirements.txt").write_text("lightning==2.4.0\n")
    found = analyse([tmp_path], Target(style=style)).files
    told = [f.message for file in found for f in file.findings if "ddp" in f.message]
    assert bool(told) is (BESIDE[beside] and style != "agnostic")


@pytest.mark.parametrize("kind", ["DDPStrategy()", "DDPStrategy(find_unused_parameters=False)"])
@pytest.mark.parametrize("release", RELEASES)
def test_a_strategy_beside_hpu_stops_where_lightning_checks_it(tmp_path: Path, kind: str, release: str) -> None:  # fmt: skip
    text = f"import lightning as pl\nfrom lightning.pytorch.strategies import DDPStrategy\npl.Trainer(accelerator='gpu', strategy={kind}).fit(model)\n"
    told = piece(page(tmp_path, {"train.py": text, "requirements.txt": release}), "`DDPStrategy`")
    assert told is not None
    assert told.required == bool(release)


# -- rewrites that wait for a person -----------------------------------------------------------------

LOADED = "net = torch.load('x.pt')\nnet.head(1)\n"
WHERE = {
    "if args.old:\n    {0}": "ready",
    "if kind == 'a':\n    pass\nelif kind == 'b':\n    pass\nelif kind == 'c':\n    {0}": "ready",
    "{0}": "ready with --unsafe",
    "if epochs:\n    {0}": "ready with --unsafe",
}


@pytest.mark.parametrize("where", WHERE)
def test_a_rewrite_that_may_be_wrong_counts_where_training_comes(tmp_path: Path, where: str) -> None:  # fmt: skip
    declared = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--old', action='store_true')\nargs = parser.parse_args()\n"
    depth = "    " if where.startswith("if") else ""
    inner = where.format(LOADED.replace("\n", f"\n{depth}").rstrip())
    made = page(tmp_path, {"train.py": f"{declared}{MOVED}{inner}\n{STEP}"})
    assert made.summary.verdict == WHERE[where]
    assert ("1 more place in parts that" in made.summary.sentence) == (WHERE[where] == "ready")  # fmt: skip


# -- imports that may fail ------------------------------------------------------------------------------

FLAGS = {
    "try:\n    import horovod.torch as hvd\n    HAS = True\nexcept ImportError:\n    HAS = False\n": "HAS",
    "HAS = True\ntry:\n    import horovod.torch as hvd\nexcept ModuleNotFoundError:\n    HAS = False\n": "HAS",
    "try:\n    import horovod.torch as hvd\nexcept Exception:\n    hvd = None\n": "hvd is not None",
    "try:\n    import horovod.torch as hvd\nexcept ImportError:\n    hvd = None\nelse:\n    SIZE = 3\n": "hvd",
}
GUARDED = "def rank():\n    return hvd.rank() if {0} else 0\n\n\n"
USES = {
    "def reduce(x):\n    return hvd.allreduce(x)\n": True,
    "def reduce(x):\n    y = x + 1\n    return {1}, hvd.allreduce(y)\n": True,
    "def reduce(x):\n    if {0}:\n        return hvd.allreduce(x)\n    return x\n": False,
    "def reduce(x):\n    if not ({0}):\n        return x\n    return hvd.allreduce(x)\n": False,
    "def _reduce(x):\n    return hvd.allreduce(x)\n\n\ndef reduce(x):\n    return _reduce(x) if {0} else x\n": False,
    **{
        f"def _reduce(x):\n    return hvd.allreduce(x)\n\n\ndef _same(x):\n    return x\n\n\n{chosen}": False
        for chosen in (
            "def reduce(x):\n    return _same(x)\n",  # nobody calls it
            "def _idle(x):\n    return _same(_reduce)\n\n\ndef reduce(x):\n    return x\n",
            'KINDS = {{"plain": _same, "all": _reduce}}\n\n\ndef reduce(x, kind="plain"):\n    return KINDS[kind](x)\n',
            'KINDS = dict(plain=_same, all=_reduce)\n\n\ndef reduce(x, kind="plain"):\n    return KINDS[kind](x)\n',
            "chosen = _reduce if {0} else _same\n\n\ndef reduce(x):\n    return chosen(x)\n",
            "def reduce(x):\n    return (_reduce if {0} else _same)(x)\n",
            "def reduce(x):\n    return [_same, _reduce][bool({0})](x)\n",
            "def reduce(x):\n    return {{True: _reduce, False: _same}}[bool({0})](x)\n",
        )
    },
    "def _reduce(x):\n    return hvd.allreduce(x)\n\n\ndef reduce(x):\n    return _reduce(x)\n": True,
    "class Reducer:\n    def __init__(self):\n        assert {0}\n\n    def reduce(self, x):\n        return hvd.allreduce(x)\n": False,
}


@pytest.mark.parametrize(("flag", "use", "asked"), crossed(list(FLAGS), list(USES), ["inside", "by others", "nowhere"], rounds=2))  # fmt: skip
def test_a_use_that_forgets_the_flag_of_its_import(tmp_path: Path, flag: str, use: str, asked: str) -> None:  # fmt: skip
    asks = FLAGS[flag]
    inside = GUARDED.format(asks) if asked == "inside" else ""
    taken = asks.split()[0]
    importing = f"import torch\nfrom lib import reduce{f', {taken}' if asked == 'by others' else ''}\n"  # fmt: skip
    files = {"lib.py": f"{flag}\n\n{inside}{use.format(asks, 1)}", "train.py": f"{importing}{STEP}    reduce(loss)\n"}  # fmt: skip
    told = piece(page(tmp_path, files), "`horovod`")
    assert (told is not None and told.required) == (USES[use] and asked == "inside")


# -- parts of packages -------------------------------------------------------------------------------------

#: What is written, and whether it is work before training, work that waits, or none.
PARTS = {
    "from torch_scatter import scatter\nscatter(x, i, dim=0)": None,
    "from torch_scatter import scatter\nscatter(x, i, reduce='mean')": None,
    "import torch_scatter\ntorch_scatter.scatter_add(x, i)": None,
    "from torch_scatter import scatter_sum as total\ntotal(x, i)": None,
    "from torch_scatter import scatter\nscatter(x, i, reduce='max')": True,
    "from torch_scatter import scatter\nscatter(x, i, reduce=kind)": False,
    "from torch_scatter import scatter_max\nscatter_max(x, i)": True,
    "from torch_geometric.data import Data\nData(x)": None,
    "from torch_geometric.loader import DataLoader\nDataLoader(x)": None,
    "from torch_geometric.nn import GCNConv\nGCNConv(3, 3)": False,
    "from detectron2.structures import Boxes\nBoxes(x)": None,
    "from detectron2.layers import Conv2d\nConv2d(3, 3)": None,
    "from detectron2.modeling import build_model\nbuild_model(cfg)": True,
    "from detectron2.layers import nms_rotated\nnms_rotated(x)": True,
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("place", ["class", "step"])
def test_the_part_of_a_package_that_is_used_decides(tmp_path: Path, part: str, place: str) -> None:
    imported, _, use = part.partition("\n")
    if place == "class":
        inner = use.replace("\n", "\n        ")
        text = f"import torch\n{imported}\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x, i, cfg, kind):\n        {inner}\n\n\nmodel = Net().cuda()\n{STEP}"
    else:
        inner = use.replace("\n", "\n    ")
        text = f"{MOVED}{imported}\n{STEP}    {inner}\n"
    (tmp_path / "train.py").write_text(text)
    made = page(tmp_path, {"train.py": text})
    about = [w for w in made.summary.work if w.code in ("HPU714", "HPU715")]
    if PARTS[part] is None:
        assert not about
    else:
        assert [w.required for w in about] == [PARTS[part]]


@pytest.mark.parametrize("named", ["AMPTrainer", "launch"])
@pytest.mark.parametrize("form", ["from detectron2.engine import {0}\n{0}(main)", "import detectron2.engine as e\ne.{0}(main)"])  # fmt: skip
def test_what_detectron2_starts_with_cuda(tmp_path: Path, named: str, form: str) -> None:
    made = page(tmp_path, {"train.py": f"{form.format(named)}\n{MOVED}{STEP}"})
    (told,) = [w for w in made.summary.work if w.code == "HPU717"]
    assert told.required == (named == "AMPTrainer")


# -- programs, imports, files of make ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear.py", "tools/finetune.py", "seq2seq.py", "classifier_main.py"])  # fmt: skip
@pytest.mark.parametrize("how", ["README.md", "run.sh", ""])
def test_what_trains_is_named_whatever_it_is_called(tmp_path: Path, name: str, how: str) -> None:
    main = f'{MOVED}\n\ndef main(data, optimizer):\n    {STEP.replace(chr(10), chr(10) + "    ")}\n\nif __name__ == "__main__":\n    main()\n'
    files = {"train.py": main, name: main, "lib/scaler.py": main, "lib/use.py": "from lib.scaler import main\n", "make_data.py": 'import torch\nif __name__ == "__main__":\n    print()\n', "evaluate.py": main}  # fmt: skip
    files["README.md"] = f"```\npython train.py\n{f'python {name}' if how == 'README.md' else ''}\n```\n"  # fmt: skip
    files["run.sh"] = f"python {name}\n" if how == "run.sh" else ""
    assert [each.path for each in page(tmp_path, files).report.programs] == ["train.py", name][: 1 + bool(how)]  # fmt: skip


@pytest.mark.parametrize("written", ["from pkg.base \\\n    import Base", "from pkg.base \\\nimport Base", "from pkg.base    import Base", "from pkg.base import \\\n    Base"])  # fmt: skip
def test_an_import_that_goes_on_in_the_next_line(tmp_path: Path, written: str) -> None:
    made = page(tmp_path, {"train.py": f"{written}\n{MOVED}{STEP}", "pkg/base.py": "class Base: pass\n", "pkg/__init__.py": ""})  # fmt: skip
    assert "pkg/base.py" in made.report.reached
    assert not any(each.name == "Base" for each in made.report.dependencies)


MADE = {
    "N = $(shell nvidia-smi -L | wc -l)\n": "HPU808",
    "N := $(shell nvidia-smi -L | wc -l)\nM = 3\n": "HPU808",
    "X ?= $(strip $(shell nvidia-smi -L))\n": "HPU808",
    "# N = $(shell nvidia-smi -L)\n": "",
    "go:\n\tnvidia-docker run image python train.py\n": "HPU811",
    "go:\n\t@docker run --gpus all image python train.py\n": "HPU811",
    "go:\n\tdocker run image python train.py\n": "",
    "go:\n\tdocker build -t nvidia-docker .\n": "",
    "go:\n\tdocker pull nvidia-docker\n": "",
}


@pytest.mark.parametrize("text", MADE)
def test_what_make_asks_for(tmp_path: Path, text: str) -> None:
    made = page(tmp_path, {"Makefile": text})
    assert [item.finding.code for item in made.items] == [MADE[text]] * bool(MADE[text])


# -- objects of the project in checkpoints -----------------------------------------------------------------

KINDS = ["class Saved(NamedTuple):\n    model: dict\n", "class Saved(Base):\n    pass\n", "class Saved(torch.nn.Module):\n    pass\n"]  # fmt: skip
ASKED = {
    "got = torch.load('x')\nif isinstance(got, Saved):\n    use(got)\n": True,
    "got = torch.load('x')\nassert isinstance(got, Saved)\n": True,
    "got = torch.load('x')\nif isinstance(got, dict):\n    use(got)\n": False,
    "got = torch.load('x')\nif isinstance(other, Saved):\n    use(got)\n": False,
    "got = torch.load('x', weights_only=False)\nassert isinstance(got, Saved)\n": False,
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_load_whose_result_is_asked_for_a_class_of_the_project(tmp_path: Path, asked: str, kind: str) -> None:  # fmt: skip
    files = {"state.py": f"import torch\nfrom typing import NamedTuple\n\n\n{kind}", "train.py": f"from state import Saved\n{MOVED}{asked}{STEP}"}  # fmt: skip
    codes = [item.finding.code for item in page(tmp_path, files).items]
    assert ("HPU615" in codes) == ASKED[asked]


# -- kernels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asserted", ["assert x.is_cuda", "assert x.is_cuda and y.is_cuda", "if not x.is_cuda:\n        raise ValueError(x)"])  # fmt: skip
def test_what_stops_around_a_kernel_is_told_with_it(tmp_path: Path, asserted: str) -> None:
    files = {
        "setup.py": "from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension('ours_cuda', ['a.cu'])])\n",
        "ops.py": f"import torch\nimport ours_cuda\n\n\ndef run(x, y):\n    {asserted}\n    return ours_cuda.run(x, y)\n",
        "train.py": f"from ops import run\n{MOVED}{STEP}    run(x, x)\n",
    }
    made = page(tmp_path, files)
    assert not any(item.path == "ops.py" for item in made.groups.get("stops", ()))
    assert made.groups["kernels"][0].finding.code == "HPU723"
    assert sum(made.summary.troubles.values()) == len(made.items)


# -- what settings say --------------------------------------------------------------------------------

SAID = {
    "fast: false\n": True,
    "model:\n  fast: False  # slow\n": True,
    "fast: no\n": True,
    "fast: true\n": False,
    "fast: 3\n": False,
    "faster: false\n": False,
}
READ = ["args.fast", "self.args.fast", "cfg['fast']", "cfg.model.fast", "config.fast and x"]
CALLED = {
    "if {0}:\n        net = torch.jit.script(net)": True,
    "if not {0}:\n        net = torch.jit.script(net)": False,
    "if {0}:\n        return net\n    net = torch.jit.script(net)": False,
}


@pytest.mark.parametrize(
    ("said", "read", "branch"), crossed(list(SAID), READ, list(CALLED), rounds=2)
)
@pytest.mark.parametrize("kind", ["yaml", "yacs", "two"])
def test_a_setting_that_is_off_in_all_files(tmp_path: Path, said: str, read: str, branch: str, kind: str) -> None:  # fmt: skip
    negated = not CALLED[branch]
    files = {"train.py": f"{MOVED}\n\ndef f(self, args, cfg, config, net, x):\n    {branch.format(read)}\n    return net\n\n\n{STEP}    f(1, 2, 3, 4, model, 5)\n"}  # fmt: skip
    if kind == "yacs":
        name, _, value = said.strip().rpartition("\n")[2].strip().partition(": ")
        files["defaults.py"] = f"from yacs.config import CfgNode\n_C = CfgNode()\n_C.MODEL.{name} = {value.title().replace('No', 'False').replace('# Slow', '')}\n"  # fmt: skip
    else:
        files["conf/config.yaml"] = said
    if kind == "two":
        files["conf/other.yaml"] = "fast: true\n"
    told = next(item for item in page(tmp_path, files).items if item.finding.code == "HPU512")
    assert told.finding.unchosen == (SAID[said] and kind != "two" and not negated)


ONE_OF = {
    "if kind == 'a':\n    {0}\nif kind == 'b':\n    f()\nif kind in ('c', 'd'):\n    g()\n": False,  # stages, which may all run
    "if kind == 'b':\n    f()\nx = 3\nif kind == 'c':\n    g()\nelif kind == 'a':\n    {0}\n": False,
    "if kind == 'b':\n    f()\nelif kind in ('c', 'd'):\n    g()\nelif kind == 'a':\n    {0}\n": True,
    "if kind == 'a':\n    {0}\nif kind == 'b':\n    f()\n": False,
    "if kind == 'a':\n    {0}\nif other == 'b':\n    f()\nif another == 'c':\n    g()\n": False,
    "if kind == 'train':\n    {0}\nif kind == 'val':\n    f()\nif kind == 'test':\n    g()\n": False,
    "if kind == 'train':\n    {0}\nelif kind == 'val':\n    f()\nelif kind == 'test':\n    g()\n": False,
}


@pytest.mark.parametrize("form", ONE_OF)
@pytest.mark.parametrize("subject", ["kind", "args.kind", "cfg['kind']"])
def test_one_of_several_names_that_are_asked_one_after_the_other(tmp_path: Path, form: str, subject: str) -> None:  # fmt: skip
    text = form.replace("kind", subject).format("model = torch.jit.script(model)")
    files = {"train.py": f"import sys\n{MOVED}kind = sys.argv[1]\n{text}{STEP}"}
    told = next(item for item in page(tmp_path, files).items if item.finding.code == "HPU512")
    assert told.finding.unchosen == ONE_OF[form]


@pytest.mark.parametrize(
    "taken", ["from vendored.net import Net\n", "import vendored.net as net\n", ""]
)
@pytest.mark.parametrize("trains", ["third/train.py", "third/vendored/fit.py"])
def test_a_copy_of_another_project_that_the_project_uses(tmp_path: Path, taken: str, trains: str) -> None:  # fmt: skip
    main = f"{taken}{MOVED}if __name__ == '__main__':\n    x = model(3)\n    x.backward()\n"
    files = {"setup.py": "", "run.py": main, "third/setup.py": "", "third/vendored/__init__.py": "", "third/vendored/net.py": "import torch\nclass Net(torch.nn.Module): pass\n", trains: f"{MOVED}{STEP}if __name__ == '__main__':\n    go()\n"}  # fmt: skip
    programs = [each.path for each in page(tmp_path, files).report.programs]
    assert "run.py" in programs
    assert (trains in programs) <= (not taken)


@pytest.mark.parametrize("built", ["CUDAExtension('ours_cuda', ['a.cu'])", "extension(\n    'ours_cuda', ['a.cu'])", "Extension(name='ours_cuda', sources=[])"])  # fmt: skip
@pytest.mark.parametrize("taken", ["import ours_cuda\n", "from ours_cuda import f\n"])
def test_what_the_project_builds_is_no_dependency(tmp_path: Path, built: str, taken: str) -> None:
    from hpushim.dependencies.places import Places
    from hpushim.dependencies.project import of_project
    from hpushim.matrix import load

    for name, text in {"ops/setup.py": f"setup(ext_modules=[{built}])\n", "train.py": f"{taken}{MOVED}{STEP}"}.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = of_project([tmp_path], (), Places(tmp_path, None, None), load(), Target())
    assert "ours_cuda" not in [each.name for each in found]


# -- what a program cannot do without -----------------------------------------------------------------

TAKEN = {
    "if kind == 'a':\n    from ops import run\nelse:\n    raise ValueError(kind)\n": True,
    "if kind == 'a':\n    from ops import run\n    net = 3\nelse:\n    print(kind)\n    exit(1)\n": True,
    "def build(kind):\n    if kind == 'a':\n        from ops import run\n    else:\n        raise Exception(kind)\n": True,
    "if kind == 'a':\n    from ops import run\nelse:\n    run = None\n": False,
    "if kind == 'a':\n    from ops import run\nelif kind == 'b':\n    run = None\nelse:\n    raise ValueError(kind)\n": False,
    "if kind == 'a':\n    from ops import run\nelse:\n    if x:\n        raise ValueError(kind)\n": False,
    "if kind == 'a':\n    from ops import run\n": False,
}


@pytest.mark.parametrize("taken", TAKEN)
def test_the_only_branch_that_goes_on_is_needed(tmp_path: Path, taken: str) -> None:
    files = {"ops/__init__.py": "import ours_cuda\n\n\ndef run(x):\n    return ours_cuda.run(x)\n", "ops/setup.py": "from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension('ours_cuda', ['a.cu'])])\n", "train.py": f"import sys\nkind = sys.argv[1]\n{taken}{MOVED}{STEP}"}  # fmt: skip
    made = page(tmp_path, files)
    assert ("ops/__init__.py" in made.report.chosen) != TAKEN[taken]


#: What is loaded, and whether it is seen to be CUDA code.
LOADED_BY = {"load(name, sources)": False, "load('ops', ['a.cu'])": True}


@pytest.mark.parametrize("loaded", LOADED_BY)
@pytest.mark.parametrize("lines", [10, 400])
def test_the_core_is_kernels_where_training_needs_them(tmp_path: Path, loaded: str, lines: int) -> None:  # fmt: skip
    ops = f"import torch\nfrom torch.utils.cpp_extension import load\n\n\ndef plugin(name, sources):\n    return {loaded}\n\n\ndef run(x):\n    return plugin('ops', ['a.cu']).run(x)\n"
    files = {"ops.py": ops, "a.cu": "//\n" * lines, "train.py": f"from ops import run\n{MOVED}{STEP.replace('model(x)', 'model(run(x))')}"}  # fmt: skip
    assert (page(tmp_path, files).summary.verdict == "blocked") == LOADED_BY[loaded]


@pytest.mark.parametrize("imported", ["import dgl\nfrom dgl import function as fn", "from dgl import function as fn\nimport dgl", "from dgl import function as fn", "import dgl, dgl.function as fn"])  # fmt: skip
@pytest.mark.parametrize("used", [True, False])
def test_a_package_serves_a_step_by_any_of_its_imports(tmp_path: Path, imported: str, used: bool) -> None:  # fmt: skip
    text = f"import torch\n{imported}\n\n\nclass Net(torch.nn.Module):\n    def forward(self, g):\n        return g.update_all({'fn.mean(1)' if used else '3'})\n\n\nmodel = Net().cuda()\n{STEP}"
    told = piece(page(tmp_path, {"train.py": text}), "`dgl`")
    assert told is not None
    assert told.required == used


@pytest.mark.parametrize("other", ["tools/train_more.py", "paper/train.py"])
@pytest.mark.parametrize("main", ["go.py", "pkg/__main__.py", "src/main.py"])
@pytest.mark.parametrize("named", [True, False])
def test_what_the_readme_starts_and_trains_is_more_than_a_name(tmp_path: Path, main: str, other: str, named: bool) -> None:  # fmt: skip
    text = f"{MOVED}{STEP}if __name__ == '__main__':\n    go()\n"
    command = f"python {f'-m {main[:3]}' if '__main__' in main else main}" if named else "python other.py"  # fmt: skip
    made = page(tmp_path, {"README.md": f"```\n{command}\n```\n", main: text, other: text, "run.sh": f"python {other}\n"})  # fmt: skip
    assert (made.report.program == main) == named


CALLED_SO = {
    "Op(3)": True,
    "y = Op(x, 1) + 2": True,
    "if Op is not None:\n    Op(3)": False,
    "y = Op(3) if Op else 3": False,
    "print(Op)": False,
    "# Op(3)": False,
    "x.Op(3)": False,
    "try:\n    Op(3)\nexcept NameError:\n    pass": False,
    "assert Op\nOp(3)": False,
}


@pytest.mark.parametrize("called", CALLED_SO)
@pytest.mark.parametrize("noted", ["Op = None", "pass", "HAS_OP = False"])
def test_what_is_called_anyway_is_needed_though_its_import_may_fail(tmp_path: Path, called: str, noted: str) -> None:  # fmt: skip
    from hpushim.dependencies.places import Places
    from hpushim.dependencies.project import of_project
    from hpushim.matrix import load

    inner = called.replace("\n", "\n    ")
    files = {"lib/__init__.py": "", "lib/net.py": f"try:\n    from .ext.op import Op\nexcept ImportError:\n    {noted}\n\n\ndef run(x):\n    {inner}\n", "train.py": "from lib.net import run\n"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    reached = frozenset(files)
    (told,) = [each for each in of_project([tmp_path], (), Places(tmp_path, None, None), load(), Target(), reached=reached) if "ext" in each.name]  # fmt: skip
    assert told.required == (
        CALLED_SO[called] and "HAS" not in noted
    )  # a flag is there to be asked
