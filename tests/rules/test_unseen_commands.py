"""Commands, variables and what is left of checks in forms that unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

import pytest
from crossed import crossed
from one_text import settled, severities

from hpushim.engine.base.text import Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

LIBRARIES = ["libcudart.so", "libcuda.so.1", "/usr/local/cuda/lib64/libcublas.so", "libnccl.so.2", "libnvidia-ml.so.1", "nvcuda.dll"]  # fmt: skip
LOADED = ["ctypes.CDLL({0})", "ctypes.cdll.LoadLibrary({0})", "CDLL({0})", "CDLL(name)"]


@pytest.mark.parametrize(("form", "library"), crossed(LOADED, LIBRARIES, rounds=2))
def test_a_library_of_cuda_that_is_loaded(form: str, library: str) -> None:
    head = f"import ctypes\nfrom ctypes import CDLL\n\nname = {library!r}\n"
    assert "HPU608" in settled(head + f"lib = {form.format(repr(library))}\n")[1]
    assert "HPU608" not in settled(head.replace(library, "libc.so.6") + f"lib = {form.format(repr('libm.so'))}\n")[1]  # fmt: skip


REMOVED = ["torch.cuda.empty_cache()", "torch.backends.cudnn.benchmark = True"]
AROUND = ["try:\n    {0}\nexcept Exception:\n    pass", "try:\n    {0}\nfinally:\n    {0}", "for i in range(3):\n    {0}", "if args.fast:\n    try:\n        {0}\n    except RuntimeError:\n        print(1)"]  # fmt: skip
KEPT = ["try:\n    {0}\nfinally:\n    close()", "try:\n    {0}\nexcept E:\n    pass\nelse:\n    go()", "for x in loader:\n    {0}", "while go():\n    {0}", "with here():\n    {0}"]  # fmt: skip


@pytest.mark.parametrize("removed", REMOVED)
@pytest.mark.parametrize("form", AROUND + KEPT)
def test_what_is_left_with_nothing_to_do_goes(removed: str, form: str) -> None:
    done = settled(f"import torch\n\nx = 1\n{form.format(removed)}\ny = 2\n")[0]
    assert removed not in done
    assert done.endswith("x = 1\ny = 2\n") == (form in AROUND)


@pytest.mark.parametrize("setting", ["export CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=1 python a.py", "CUDA_VISIBLE_DEVICES="])  # fmt: skip
@pytest.mark.parametrize("comment", ["# set CUDA_VISIBLE_DEVICES", "  # CUDA_VISIBLE_DEVICES=2 python b.py", "#CUDA_VISIBLE_DEVICES"])  # fmt: skip
def test_comments_of_a_script_follow_the_variable(setting: str, comment: str) -> None:
    done = settled(f"#!/bin/bash\n{comment}\n{setting}\n", "shell", "run.sh")[0]
    turned = comment.replace("CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES")
    assert done.splitlines()[1] == (comment if setting.endswith("=") else turned)


@pytest.mark.parametrize("skip", ["unittest.skipIf({0}, {1})", "unittest.skipUnless({0}, {1})", "pytest.mark.skipif({0}, reason={1})", "pytest.mark.skipif(not {0}, reason={1})"])  # fmt: skip
@pytest.mark.parametrize("said", ["needs CUDA", "CUDA not available", "CUDA only"])
def test_the_reason_of_a_skip_follows_its_check(skip: str, said: str) -> None:
    mark = skip.format("torch.cuda.is_available()", f"{said!r}")
    done = settled(f"import torch\n\n\n@{mark}\ndef test_a():\n    torch.ones(2).cuda()\n")[0]
    assert repr(said.replace("CUDA", "HPU")) in done


VARIABLES = {
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": True,
    "NCCL_DEBUG": True,
    "TORCH_CUDA_ARCH_LIST": True,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": True,
    "OURS_CUDA_FLAG": False,
    "_our_nccl_state": False,
}
GIVEN = ["{{'env_vars': {{{0!r}: '1'}}}}", "dict(os.environ, {0}='1')", "f'{0}=1 python train.py'", "launch({0!r}, '1')"]  # fmt: skip


@pytest.mark.parametrize("name", list(VARIABLES))
@pytest.mark.parametrize("given", GIVEN)
def test_the_matrix_knows_a_variable_wherever_it_is_written(name: str, given: str) -> None:
    text = f"import os, torch\n\ntorch.ones(2).cuda()\nrun({given.format(name)})\n"
    assert ("HPU010" in settled(text)[1]) == VARIABLES[name]


@pytest.mark.parametrize("package", ["onnxruntime-gpu", "faiss-gpu"])
@pytest.mark.parametrize("use", ["need('{0}' if gpu else 'plain')", "name = '{0}' if gpu else 'plain'", "if gpu:\n    need(['{0}'])"])  # fmt: skip
def test_a_check_that_picks_a_package_for_cuda_stays(package: str, use: str) -> None:
    text = f"import torch\n\ngpu = torch.cuda.is_available()\n{use.format(package)}\n"
    done, codes = settled(text)
    assert done == text
    assert "HPU028" in codes
    assert "hpu" in settled(text.replace(package, "other"))[0]


RUN = ["subprocess.check_output({0})", "subprocess.run({0}, capture_output=True).stdout", "subprocess.Popen({0})", "subprocess.check_call({0})"]  # fmt: skip
COMMANDS = ["['nvidia-smi', '-L']", "['nvidia-smi', '--query-gpu=name', '--format=csv']", "'nvidia-smi'"]  # fmt: skip
CAUGHT = {
    "def f():\n    return {0}\n": True,
    "def f():\n    return {0}\n\n\nprint(f())\n": True,
    "if torch.cuda.is_available():\n    print({0})\n": True,
    "try:\n    {0}\nexcept FileNotFoundError:\n    pass\n": False,
    "try:\n    {0}\nexcept (OSError, ValueError):\n    pass\n": False,
    "def f():\n    return {0}\n\n\ntry:\n    f()\nexcept Exception:\n    pass\n": False,
    "def f():\n    if shutil.which('nvidia-smi'):\n        return {0}\n": False,
    "try:\n    {0}\nexcept ValueError:\n    pass\n": True,
}


@pytest.mark.parametrize(("run", "given", "around"), crossed(RUN, COMMANDS, list(CAUGHT), rounds=2))
def test_a_command_that_is_not_there_stops_the_program_unless_that_is_caught(run: str, given: str, around: str) -> None:  # fmt: skip
    text = f"import shutil, subprocess\nimport torch\n\n{around.format(run.format(given))}torch.ones(2).cuda()\n"
    assert severities(text, "HPU020") == ["error" if CAUGHT[around] else "warning"]


@pytest.mark.parametrize("call", ["os.system('nvidia-smi')", "subprocess.run('nvidia-smi', shell=True)", "subprocess.getoutput('nvidia-smi -L')", "os.popen('nvidia-smi').read()", "subprocess.run(['bash', '-c', 'nvidia-smi'])"])  # fmt: skip
def test_a_shell_goes_on_without_a_command(call: str) -> None:
    text = f"import os, subprocess\nimport torch\n\n{call}\ntorch.ones(2).cuda()\n"
    assert severities(text, "HPU020") == ["warning"]


@pytest.mark.parametrize("setting", ["os.environ['CUDA_VISIBLE_DEVICES'] = {0}", "os.environ.setdefault('CUDA_VISIBLE_DEVICES', {0})", "os.putenv('CUDA_VISIBLE_DEVICES', {0})"])  # fmt: skip
@pytest.mark.parametrize("value", ["'-1'", "''", "'0,1'", "gpus"])
def test_hiding_every_gpu_hides_no_gaudi(setting: str, value: str) -> None:
    text = f"import os\nimport torch\n\n{setting.format(value)}\ntorch.ones(2).cuda()\n"
    done = settle(text, "python", "ops.py", Context(Target(), load(), unsafe=True))
    (told,) = [each for each in done.findings if each.code == "HPU312"]
    hides = value in ("'-1'", "''")
    assert ("no longer makes" in told.message) == hides
    assert ("HABANA_VISIBLE_MODULES" in done.text) != hides


CLONES = ["git clone https://github.com/NVIDIA/{0}.git", "git clone --depth 1 https://github.com/NVIDIA/{0} {0} && cd {0}", "git clone git@github.com:NVIDIA/{0}.git", "cd /tmp && git clone -b main ssh://git@github.com/NVIDIA/{0}/"]  # fmt: skip


@pytest.mark.parametrize("clone", CLONES)
@pytest.mark.parametrize(("package", "told"), [("apex", 1), ("flash-attention", 1), ("DeepLearningExamples", 0)])  # fmt: skip
@pytest.mark.parametrize("kind", ["shell", "dockerfile"])
def test_a_package_for_nvidia_is_cloned_to_be_installed(clone: str, package: str, told: int, kind: str) -> None:  # fmt: skip
    front = "RUN " if kind == "dockerfile" else "pip install torch\n"
    codes = settled(f"{front}{clone.format(package)}\n", kind, "install")[1]
    assert codes.count("HPU815") == told


SAID = ["CUDA is not available", "CUDA is not available. Running on the CPU will be slow.", "Sorry! CUDA is not found"]  # fmt: skip


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("show", ["print({0!r})", "logging.warning({0!r})", "raise RuntimeError({0!r})"])  # fmt: skip
def test_what_is_not_there_is_no_accelerator(said: str, show: str) -> None:
    text = f"import logging\nimport torch\n\nif not torch.cuda.is_available():\n    {show.format(said)}\nelse:\n    x = torch.zeros(2).cuda()\n"
    done = settled(text, style="agnostic")[0]
    assert said.replace("CUDA is not ", "No accelerator is ") in done


STARTED = ["python {0}", "python3 {0} --lr 1", "nohup python -u ./{0} &", "srun --gpus 1 python {0}", "python -m {1}", "for i in 1 2; do\n  python {0} $i\ndone"]  # fmt: skip
CARDS = ["CUDA_VISIBLE_DEVICES='3' {0}", "CUDA_VISIBLE_DEVICES=0,1 {0}", "export CUDA_VISIBLE_DEVICES=0\n{0}", "nvidia-smi\n{0} --device cuda", "#SBATCH --gres=gpu:1\n{0}"]  # fmt: skip


def started(text: str, *names: str) -> tuple[str, list[str]]:
    """A script after the rewrite, in a project where the names are programs of another framework."""
    project = Project(files=frozenset({"train.py", "sim.py", "solve.py"}), foreign=frozenset(names))
    done = settle(text, "shell", "run.sh", Context(Target(), load(), project))
    return done.text, [finding.code for finding in done.findings]


@pytest.mark.parametrize(("form", "program"), crossed(CARDS, STARTED, rounds=5))
def test_a_script_that_starts_programs_of_another_framework(form: str, program: str) -> None:
    foreign = ["sim.py", "solve.py"]
    text = form.format(program.format("sim.py", "sim")) + "\n"
    assert started(text, *foreign) == (text, [])
    assert started(text)[1]
    ours = form.format(program.format("train.py", "train")) + "\n"
    assert started(ours, *foreign) == started(ours) and started(ours)[1]
    unknown = ours.replace("train", "other")
    assert started(unknown, *foreign) == started(unknown)
    jax = Project(files=frozenset({"other.py"}), collected=(("frameworks", frozenset({"JAX"})),))
    assert settle(unknown, "shell", "run.sh", Context(Target(), load(), jax)).text == unknown


def test_a_script_that_starts_programs_of_two_frameworks() -> None:
    each = "CUDA_VISIBLE_DEVICES=1 python {0}\n"
    after, _ = started(each.format("sim.py") + each.format("train.py"), "sim.py")
    assert after == each.format("sim.py") + "export PT_HPU_LAZY_MODE=0\n" + each.format("train.py").replace("CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES")  # fmt: skip
    both = "export CUDA_VISIBLE_DEVICES=1\npython sim.py\npython train.py\n"
    after, codes = started(both, "sim.py")
    assert "HABANA" not in after and "HPU804" in codes


TO_FILL = ["DATA=<Specify path and prefix>_text\nA=<path>\n", "A=<path of the data>\n", "A=<x>/b\n", "python show.py --data <path/to/data>\n", "python show.py --data <path of it> \\\n  --x 1\n"]  # fmt: skip


@pytest.mark.parametrize("lines", TO_FILL)
@pytest.mark.parametrize("option", ["--distributed_backend nccl", "--backend=nccl"])
def test_what_somebody_is_to_fill_in_is_no_redirection(lines: str, option: str) -> None:
    text = f"{lines}python train.py --data $A {option} \\\n    --lr 1\n"
    assert option.replace("nccl", "hccl") in settled(text, "shell", "run.sh")[0]
