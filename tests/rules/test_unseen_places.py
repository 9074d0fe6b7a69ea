"""What further unseen repositories showed, each as a class: libraries that know the CPU and CUDA only, groups, builds, checkpoints, comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target

DEVICES = ["'cuda'", "'cuda' if torch.cuda.is_available() else 'cpu'", "'cuda' if gpu else 'cpu'"]
MADE = ["ctranslate2.Translator('m', {0})", "ctranslate2.Generator('m', {0}, inter_threads=1)", "WhisperModel('tiny', {0})"]  # fmt: skip
HANDED = {
    "device={0}": "",
    "device=device": "device = {0}",
    "**options": "options = {{'device': {0}, 'compute_type': 'int8'}}",
    "**kw": "kw = {{'device': {0}}}",
}


@pytest.mark.parametrize(("made", "device", "handed"), crossed(MADE, DEVICES, list(HANDED), rounds=3))  # fmt: skip
def test_a_library_without_hpu_keeps_its_device(made: str, device: str, handed: str) -> None:
    head = "import ctranslate2\nimport torch\nfrom faster_whisper import WhisperModel\n\n\ndef f(gpu, net):\n    net.cuda()\n"
    line = f"    {HANDED[handed].format(device)}\n" if HANDED[handed] else ""
    done, codes = settled(f"{head}{line}    return {made.format(handed.format(device))}\n")
    assert done.count("'hpu'") == 1  # net's
    assert codes.count("HPU717") == 1


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("given", ["device='cpu'", "inter_threads=2"])
def test_a_library_on_the_cpu_is_not_told(made: str, given: str) -> None:
    text = f"import ctranslate2\nimport torch\nfrom faster_whisper import WhisperModel\n\nx = torch.ones(2).cuda()\ny = {made.format(given)}\n"
    assert "HPU717" not in settled(text)[1]


SPREAD = ["model.parallelize()", "self.model.parallelize()", "model.parallelize(device_map)", "model.parallelize(device_map=maps)"]  # fmt: skip
TURNS = {"if torch.cuda.is_available():": True, "if torch.cuda.device_count() > 1:": True, "if args.parallel:": False}  # fmt: skip


@pytest.mark.parametrize("call", SPREAD)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("imported", ["from transformers import AutoModel", "import other"])
def test_layers_are_not_spread_over_devices(call: str, turn: str, imported: str) -> None:
    text = f"import torch\n{imported}\n\n\ndef f(self, model, args, device_map, maps):\n    {turn}\n        {call}\n    return model.cuda()\n"
    done, codes = settled(text)
    ours = "transformers" in imported
    assert ("HPU717" in codes) is ours
    assert (turn in done) is (ours or not TURNS[turn])  # the check stays with what it controls


GROUPS = {
    "dist.init_process_group('gloo')": True,
    "dist.init_process_group(backend='gloo', rank=0, world_size=2)": True,
    "backend = 'gloo'\n    dist.init_process_group(backend)": True,
    "dist.init_process_group('nccl' if gpu else 'gloo')": False,
    "dist.init_process_group('cpu:gloo,cuda:nccl')": False,
    "dist.new_group(backend='gloo')": False,
}
WRAPS = {"DistributedDataParallel(model.cuda())": True, "DistributedDataParallel(model)": False, "model.cuda()": False}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("wrapped", WRAPS)
def test_a_group_of_gloo_is_for_the_cpu(group: str, wrapped: str) -> None:
    name = "from torch.nn.parallel import DistributedDataParallel\n" if "Parallel" in wrapped else ""  # fmt: skip
    text = f"import torch\nimport torch.distributed as dist\n{name}\n\ndef f(model, gpu):\n    {group}\n    return {wrapped}\n"
    assert ("HPU326" in settled(text)[1]) is (GROUPS[group] and WRAPS[wrapped])


EXTENSIONS = {
    "Extension('gpu_nms', ['nms_kernel.cu', 'gpu_nms.pyx'])": True,
    "Extension(name='gpu_nms', sources=['nms_kernel.cu'], language='c++')": True,
    "Extension('gpu_nms', sources, extra_compile_args={'nvcc': ['-O2']})": True,
    "Extension('gpu_nms', ['gpu_nms.pyx'], include_dirs=[join('a', 'b')])": False,
}
IMPORTS = ["from gpu_nms import gpu_nms", "from .gpu_nms import gpu_nms", "import gpu_nms", "from lib.nms.gpu_nms import gpu_nms"]  # fmt: skip


@pytest.mark.parametrize("imported", IMPORTS)
@pytest.mark.parametrize("extension", EXTENSIONS)
@pytest.mark.parametrize("source", ["setuptools", "distutils.core", "distutils.extension"])
def test_an_extension_of_setuptools_with_cuda_sources(tmp_path: Path, imported: str, extension: str, source: str) -> None:  # fmt: skip
    (tmp_path / "setup.py").write_text(f"from os.path import join\nfrom {source} import Extension\n\next = [\n    Extension('cpu_nms', ['cpu_nms.pyx']),\n    {extension},\n]\n")  # fmt: skip
    (tmp_path / "nms.py").write_text(f"import numpy\n{imported}\nfrom cpu_nms import cpu_nms\n")
    found = {file.path: [f.code for f in file.findings] for file in analyse([tmp_path], Target(), jobs=1).files}  # fmt: skip
    assert found.get("setup.py", []).count("HPU711") == EXTENSIONS[extension]
    assert found.get("nms.py", []).count("HPU723") == EXTENSIONS[extension]


#: What a checkpoint holds beside the state, how settings are read in the file that saves, and whether torch loads it by itself.
HELD = {
    "'args': args": True,
    "'config': self.cfg": True,
    "'opts': vars(args)": False,
    "'args': args.__dict__": False,
    "'config': plain": False,
    "'acc': 3": False,
}
READS = {"ck['model'], ck['epoch']": True, "ck['model'], ck['state']": False, "ck['best']": False}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("apart", [True, False])
def test_a_checkpoint_with_settings_is_not_loaded_by_default(tmp_path: Path, held: str, read: str, apart: bool) -> None:  # fmt: skip
    save = f"import torch\n\n\ndef save(self, model, args, plain, epoch):\n    print(args.lr, self.cfg.lr, plain['lr'])\n    torch.save({{'model': model.state_dict(), 'epoch': epoch, {held}}}, 'a.pt')\n\n\n"
    load = f"def resume(path):\n    ck = torch.load(path, map_location='cpu')\n    return {read}\n"
    (tmp_path / "save.py").write_text(save if apart else save + load)
    if apart:
        (tmp_path / "resume.py").write_text(f"import torch\n\n\n{load}")
    codes = [f.code for file in analyse([tmp_path], Target(), jobs=1).files for f in file.findings]
    assert codes.count("HPU615") == (HELD[held] and READS[read])


BASES = ["nn.parallel.DistributedDataParallel", "DistributedDataParallel"]
NAMED = ["from wrap import {0}", "from wrap import {0} as DDP", "import wrap", "from .wrap import {0} as DDP"]  # fmt: skip


@pytest.mark.parametrize(("base", "named"), crossed(BASES, NAMED, rounds=2))
@pytest.mark.parametrize("name", ["Wrapped", "DistributedDataParallel"])
def test_a_subclass_from_another_file_takes_no_device_ids(tmp_path: Path, base: str, named: str, name: str) -> None:  # fmt: skip
    (tmp_path / "wrap.py").write_text(f"from torch import nn\nfrom torch.nn.parallel import DistributedDataParallel\n\n\nclass {name}({base}):\n    pass\n")  # fmt: skip
    used = "DDP" if "DDP" in named else f"wrap.{name}" if "wrap\n" in f"{named}\n" and named.startswith("import") else name  # fmt: skip
    (tmp_path / "train.py").write_text(f"import torch\n{named.format(name)}\n\n\ndef f(model, rank):\n    return {used}(module=model.cuda(), device_ids=[rank])\n")  # fmt: skip
    found = {file.path: [f.code for f in file.findings] for file in analyse([tmp_path], Target(), jobs=1).files}  # fmt: skip
    assert "HPU306" in found["train.py"]


#: A comment above lines that go, the lines, what comes below, and whether the comment goes too.
COMMENTED = [
    ("cudnn related setting", "torch.backends.cudnn.benchmark = True\n    torch.backends.cudnn.enabled = True", "\n    x = 1", True),
    ("cudnn related setting", "torch.backends.cudnn.benchmark = True\n    torch.backends.cudnn.enabled = True", "x = 1", True),
    ("cudnn related setting", "torch.backends.cudnn.benchmark = True\n    torch.backends.cudnn.enabled = True", "print(cudnn)", False),
    ("all about speed", "torch.backends.cudnn.benchmark = True\n    torch.backends.cudnn.enabled = True", "x = 1", False),
    ("empty the cache", "torch.cuda.empty_cache()\n    torch.cuda.empty_cache()", "x = 1", True),
]  # fmt: skip


@pytest.mark.parametrize(("comment", "lines", "below", "goes"), COMMENTED)
def test_a_comment_goes_with_all_that_it_is_about(comment: str, lines: str, below: str, goes: bool) -> None:  # fmt: skip
    done = settled(f"import torch\n\n\ndef f(cudnn):\n    y = 2\n    # {comment}\n    {lines}\n    {below}\n")[0]  # fmt: skip
    assert (f"# {comment}" not in done) is goes


@pytest.mark.parametrize("text", ["cfg = {'backend': 'nccl', 'size': 1}", "save({'gpu_backend': 'nccl'})"])  # fmt: skip
@pytest.mark.parametrize(("more", "bridge"), [("", False), ("x.cuda()", True), ("dist.init_process_group(**cfg)", True)])  # fmt: skip
def test_a_setting_alone_needs_no_bridge(text: str, more: str, bridge: bool) -> None:
    body = f"import torch\nimport torch.distributed as dist\n\nif __name__ == '__main__':\n    x = torch.zeros(2)\n    {text}\n    {more}\n"
    assert ("habana_frameworks" in settled(body)[0]) is bridge


@pytest.mark.parametrize("check", ["isinstance(x.data, torch.cuda.FloatTensor)", "x.is_cuda", "x.device.type == 'cuda'"])  # fmt: skip
@pytest.mark.parametrize("call", ["nn.parallel.data_parallel(self.net, x, self.ids)", "data_parallel(self.net, x)"])  # fmt: skip
@pytest.mark.parametrize(("form", "stays"), [
    ("if {0}:\n            return {1}\n        return self.net(x)", True),
    ("return {1} if {0} else self.net(x)", True),
    ("if {0}:\n            y = {1}\n        else:\n            y = self.net(x)\n        return y", True),
    ("if {0}:\n            x = x.cuda()\n        return {1}", False),
])  # fmt: skip
def test_a_check_that_chooses_several_devices_stays(check: str, call: str, form: str, stays: bool) -> None:  # fmt: skip
    text = f"import torch\nfrom torch import nn\nfrom torch.nn.parallel import data_parallel\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        {form.format(check, call)}\n"
    assert (check in settled(text)[0]) is stays


@pytest.mark.parametrize("name", ["torch.sparse.torch.eye(n)", "torch.sparse.torch.zeros(n, n)"])
def test_torch_in_its_module_of_sparse_tensors_is_torch(name: str) -> None:
    text = f"import torch\n\n\ndef f(n, x):\n    return {name} @ x.cuda()\n"
    assert "HPU124" not in settled(text)[1]
    assert "HPU124" in settled(text.replace(".torch.", "."))[1]


@pytest.mark.parametrize("lists", ["nvidia-smi -L", "nvidia-smi --list-gpus"])
@pytest.mark.parametrize("counts", ["grep -c GPU", "grep -c 'GPU'", 'grep --count "GPU"', "wc -l"])
def test_lines_that_name_a_gpu_are_counted(lists: str, counts: str) -> None:
    text = f"export PT_HPU_LAZY_MODE=0\nN=$({lists} | {counts})\n"
    done = settle(text, "shell", "run.sh", Context(Target(), load(), unsafe=True)).text
    assert done.endswith("N=$(hl-smi -Q module_id -f csv,noheader | wc -l)\n")


@pytest.mark.parametrize("package", ["detectron2.utils.comm", "detectron2.config", "stable_baselines3.common.vec_env", "stable_baselines3.common.running_mean_std"])  # fmt: skip
@pytest.mark.parametrize("form", ["from {0} import thing", "import {0}", "import {0} as thing"])
def test_a_part_without_devices_is_no_library(package: str, form: str) -> None:
    text = f"import torch\n{form.format(package)}\n\nx = torch.zeros(2).cuda()\n"
    assert "HPU714" not in settled(text)[1]
    whole = package.partition(".")[0]
    assert "HPU714" in settled(text.replace(form.format(package), f"import {whole}"))[1]


#: Lines with a comment that goes, and what is left around them.
RUNS = [
    ("x = 1\n\n    # cudnn.deterministic = True\n    torch.backends.cudnn.benchmark = True\n\n\ndef g():\n    pass", "x = 1\n\n\ndef g():\n    pass"),
    ("# cudnn flags\n    torch.backends.cudnn.benchmark = True\n    torch.backends.cudnn.enabled = True\n\n    return 1", "return 1"),
    ("x = 1\n    # cudnn flags\n    torch.backends.cudnn.benchmark = True\n\n    return x", "x = 1\n\n    return x"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), RUNS)
def test_lines_around_a_comment_that_goes_are_parted_once(before: str, after: str) -> None:
    head = "import torch\n\n\ndef f():\n    "
    assert settled(f"{head}{before}\n")[0] == f"{head}{after}\n"


NUMBERS = ["dist.get_rank() % torch.cuda.device_count()", "args.rank % torch.cuda.device_count()", "torch.device('cuda')", "torch.device(name)"]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("call", ["gen.sample(x, device=place)", "make().sample(x, device=place)", "sample(x, device=place)"])  # fmt: skip
def test_a_number_that_a_function_of_the_project_takes_for_a_device(tmp_path: Path, number: str, call: str) -> None:  # fmt: skip
    (tmp_path / "diffusion.py").write_text("import torch\n\n\ndef make():\n    return Net()\n\n\ndef sample(x, device=None):\n    return torch.zeros(3, device=device) + x\n\n\nclass Net:\n    def sample(self, x, device=None):\n        return torch.zeros(3, device=device) + x\n")  # fmt: skip
    (tmp_path / "main.py").write_text(f"import torch\nimport torch.distributed as dist\nfrom diffusion import make, sample\n\n\ndef f(x, gen, name, args):\n    place = {number}\n    return {call}\n")  # fmt: skip
    report = analyse([tmp_path], Target(), jobs=1)
    told = [f for file in report.files for f in file.findings if f.code == "HPU105" and "of this project" in f.message]  # fmt: skip
    assert len(told) == ("count" in number)


PARSED = ["Accelerator(mixed_precision=args.mixed_precision)", "Accelerator(**{'mixed_precision': args.mixed_precision})", "Accelerator(mixed_precision=opts.mixed_precision, cpu=False)"]  # fmt: skip
OPTIONS = {
    "'--mixed-precision', default='fp16'": True,
    "'-m', '--mixed_precision', type=str, default='fp16', choices=['no', 'fp16', 'bf16']": True,
    "'--mixed-precision', default='bf16'": False,
    "'--mixed-precision'": False,
    "'--precision', default='fp16'": False,
}


@pytest.mark.parametrize("made", PARSED)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_argument_is_by_default_what_its_option_is(made: str, option: str) -> None:
    text = f"import argparse\nfrom accelerate import Accelerator\n\np = argparse.ArgumentParser()\np.add_argument({option})\nargs = opts = p.parse_args()\na = {made}\n"
    done = settle(text, "python", "ops.py", Context(Target(), load()))
    told = [f for f in done.findings if f.row == "accelerate.Accelerator(mixed_precision='fp16')"]
    assert len(told) == OPTIONS[option]


BUILT = {"['a.cpp', 'a.cu']": True, "['a.cpp']": False}
ASKED = ["if not torch.cuda.is_available():\n    print('cross-compile')", "if torch.cuda.is_available() and torch.version.cuda:\n    print(torch.cuda.get_device_name(0))", "kind = 'gpu' if torch.cuda.is_available() else 'cpu'\nprint(kind)"]  # fmt: skip


@pytest.mark.parametrize("sources", BUILT)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("setup", ["from setuptools import setup", "from distutils.core import setup", "def setup(**given):\n    pass"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual"])
def test_a_build_of_kernels_asks_about_the_machine_that_builds(sources: str, asked: str, setup: str, style: str) -> None:  # fmt: skip
    kind = "CUDAExtension" if BUILT[sources] else "CppExtension"
    text = f"import torch\nfrom torch.utils.cpp_extension import {kind}\n{setup}\n\n{asked}\nsetup(ext_modules=[{kind}('a', {sources})])\n"
    done, codes = settled(text, style=style)
    stays = BUILT[sources] and "import" in setup
    assert ("torch.cuda.is_available()" in done) == stays
    assert not stays or "HPU028" not in codes
