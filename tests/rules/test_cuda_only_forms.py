"""What runs only where CUDA is, in the forms in which people write it: images, packages, extensions and guards."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed

from codemods.analysis.versions import assess
from hpushim.engine.base.text import Text
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target


def settled(text: str, kind: str = "python", name: str = "ops.py") -> tuple[str, list[str]]:
    """A file after the rewrite, and the codes of what is said of it."""
    done = settle(text, kind, name, Context(Target(), load()))  # type: ignore[arg-type]
    return done.text, [finding.code for finding in done.findings]


IMAGES = {
    "${IMAGE_NAME}:10.2-runtime-ubuntu18.04": True,
    "$BASE:12.1.1-cudnn8-devel-ubuntu22.04": True,
    "registry.example.org/ours:${CUDA}-base-ubi8": True,
    "mirror/cuda:12.4.1-devel-rockylinux9": True,
    "python:3.11-slim-bookworm": False,
    "ubuntu:22.04": False,
    "$BASE:latest": False,
    "debian:12.1-base": False,
}
WRITTEN = ["FROM {0}\n", "FROM --platform=linux/amd64 {0} AS build\n", "ARG BASE={0}\nFROM $BASE\n"]


@pytest.mark.parametrize("image", list(IMAGES))
@pytest.mark.parametrize("written", WRITTEN)
def test_an_image_is_known_by_its_tag(image: str, written: str) -> None:
    assert ("HPU810" in settled(written.format(image), "dockerfile", "Dockerfile")[1]) == IMAGES[image]  # fmt: skip


INSTALLED = {
    "cuda-nvml-dev-$CUDA_PKG_VERSION": True,
    "cuda-toolkit-12-1": True,
    "cuda": True,
    "libnccl-dev=$NCCL_VERSION-1+cuda10.2": True,
    "libnccl2": True,
    "libcublas-dev=10.2.2.89-1": True,
    "libcudnn8-dev": True,
    "libcufft-11-8": True,
    "libnvinfer8": True,
    "nvidia-cuda-toolkit": True,
    "libcurl4-openssl-dev": False,
    "libnuma-dev": False,
    "build-essential": False,
    "libncurses5": False,
    "libcunit1": False,
}
INSTALLS = ["apt-get update && apt-get install -y --no-install-recommends \\\n        git {0}", "sudo apt install {0}", "yum -y install {0}", "dnf install {0} gcc"]  # fmt: skip
FILES = {"dockerfile": ("Dockerfile", "FROM ubuntu:22.04\nRUN {0}\n"), "shell": ("install.sh", "#!/bin/bash\n{0}\n")}  # fmt: skip


@pytest.mark.parametrize(("package", "form"), crossed(list(INSTALLED), INSTALLS, rounds=2))
@pytest.mark.parametrize("kind", list(FILES))
def test_packages_of_a_distribution_that_install_cuda(package: str, form: str, kind: str) -> None:
    name, text = FILES[kind]
    assert ("HPU816" in settled(text.format(form.format(package)), kind, name)[1]) == INSTALLED[package]  # fmt: skip


@pytest.mark.parametrize("path", ["/usr/local/cuda/lib64/stubs", "/usr/local/cuda/bin:$PATH", "/usr/local/cuda-11.8"])  # fmt: skip
@pytest.mark.parametrize("form", ["ENV PATH={0}", "ENV LIBRARY_PATH {0}", "ENV A=1 LD_LIBRARY_PATH={0}", "RUN export PATH={0}"])  # fmt: skip
def test_a_path_of_the_toolkit_in_an_image(form: str, path: str) -> None:
    text = f"FROM ubuntu:22.04\n{form}\n"
    assert "HPU805" in settled(text.format(path), "dockerfile", "Dockerfile")[1]
    assert "HPU805" not in settled(text.format("/opt/ours"), "dockerfile", "Dockerfile")[1]


BUILT = {
    "sources += ['src/ops_kernel.cu']": True,
    "extra_objects += ['src/cuda/ops.cu.o']": True,
    "defines += [('WITH_CUDA', None)]": True,
    "flags.append('-DWITH_CUDA')": True,
    "sources += glob.glob(os.path.join(here, '*.cu'))": True,
    "defines += [('WITH_OPENMP', None)]": False,
    "sources += ['src/ops.cpp']": False,
    "print('no .cut of it')": False,
}
ASKED = ["if torch.cuda.is_available():\n    {0}", "if torch.cuda.device_count() > 0:\n    {0}", "gpu = torch.cuda.is_available()\nif gpu:\n    print('with')\n    {0}", "if not torch.cuda.is_available():\n    print('without')\nelse:\n    {0}"]  # fmt: skip
BUILDERS = ["from torch.utils.ffi import create_extension", "from torch.utils.cpp_extension import CppExtension", "from setuptools import Extension"]  # fmt: skip


@pytest.mark.parametrize(("built", "check"), crossed(list(BUILT), ASKED, rounds=3))
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_check_that_decides_on_sources_of_cuda_stays(built: str, check: str, builder: str) -> None:  # fmt: skip
    text = f"import glob, os\nimport torch\n{builder}\n\nsources, extra_objects, defines, flags = [], [], [], []\n{check.format(built)}\n"
    done, codes = settled(text, name="build.py")
    assert ("torch.cuda." in done) == BUILT[built]
    assert ("HPU028" in codes) == BUILT[built]


CALLS = {
    "from ._ext import ops as _backend": "_backend.ops_gpu_forward(x, y)",
    "from ._ext import ops": "ops.gpu_forward(x, y)",
    "from ._ext.ops import gpu_forward": "gpu_forward(x, y)",
    "from ours import _C": "_C.forward_gpu(x, y)",
    "from ours._C import forward_gpu": "forward_gpu(x, y)",
}
MOVED = ["if x.is_cuda:\n        {0}\n    else:\n        slow(x, y)", "if not x.is_cuda:\n        slow(x, y)\n    else:\n        {0}", "if x.device.type == 'cuda':\n        {0}", "assert not use or torch.cuda.is_available()\n    if x.is_cuda and use:\n        {0}"]  # fmt: skip


@pytest.mark.parametrize("imported", list(CALLS))
@pytest.mark.parametrize("form", MOVED)
def test_a_tensor_asked_before_an_extension_is_called(imported: str, form: str) -> None:
    text = f"import torch\n{imported}\n\n\ndef f(x, y, use):\n    {form.format(CALLS[imported])}\n    return y\n"
    asked = "is_cuda" if "is_cuda" in form else "== 'cuda'"
    assert asked in settled(text)[0]
    assert asked not in settled(text.replace(imported, "from ours import _D, ops as _backend, gpu_forward, forward_gpu"). replace("_C.", "_D."))[0]  # fmt: skip


@pytest.mark.parametrize("imported", ["from ._ext import ops", "from ._ext import ops as _backend", "from ours._ext.ops import forward"])  # fmt: skip
@pytest.mark.parametrize("with_cuda", [True, False])
def test_an_extension_that_torchs_old_module_builds(tmp_path: Path, imported: str, with_cuda: bool) -> None:  # fmt: skip
    name = "ours._ext.ops" if "ours" in imported else "_ext.ops"
    macro = "('WITH_CUDA', None)" if with_cuda else "('FAST', None)"
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/__init__.py").touch()
    (tmp_path / "ours/build.py").write_text(
        f"from torch.utils.ffi import create_extension\n\nffi = create_extension(\n    {name!r}, define_macros=[{macro}], with_cuda=True)\n"
    )
    (tmp_path / "ours/ops.py").write_text(f"import torch\n{imported}\n")
    told = {f.path: {each.code for each in f.findings} for f in analyse([tmp_path], Target(), jobs=1).files}  # fmt: skip
    assert ("HPU723" in told.get("ours/ops.py", ())) == with_cuda
    assert "HPU711" in told["ours/build.py"]


CONFIGS = {
    "yaml": ("fp16:\n  loss_scale: {0}\n", ["512.0", "dynamic", "\n    init_scale: 512\n    growth_interval: 2000"]),
    "json": ('{{"train": {{"fp16": {{"loss_scale": {0}}}}}}}\n', ["512.0", '"dynamic"', '{"init_scale": 512}']),
    "python": ("fp16 = dict(loss_scale={0})\n", ["512.", "'dynamic'", "dict(init_scale=512)"]),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), [(kind, v) for kind in CONFIGS for v in CONFIGS[kind][1]])  # fmt: skip
def test_a_setting_that_scales_the_loss_of_float16(kind: str, value: str) -> None:
    text, told = CONFIGS[kind][0].format(value), "HPU209" if kind == "python" else "HPU802"
    assert told in settled(text, kind, f"config.{kind}")[1]
    for other in ("bf16", "optimizer"):
        assert told not in settled(text.replace("fp16", other), kind, f"config.{kind}")[1]


#: How an option limits what it takes, and whether bfloat16 may be written for its float16.
TAKES = {
    "choices=['fp32', 'fp16']": False,
    "default='fp32', choices=('fp32', 'fp16'), help='(x)'": False,
    "choices=['fp32', 'fp16', 'bf16']": True,
    "default='fp32'": True,
}


@pytest.mark.parametrize("takes", TAKES)
@pytest.mark.parametrize("option", ["--model-dtype", "-model_dtype', '--model_dtype"])
def test_a_value_that_the_option_rejects_is_not_written(tmp_path: Path, takes: str, option: str) -> None:  # fmt: skip
    (tmp_path / "opts.py").write_text(f"import torch\n\np.add_argument('{option}', {takes})\n")
    (tmp_path / "base.yaml").write_text("model_dtype: fp16\n")
    (tmp_path / "run.sh").write_text("python train.py --model_dtype fp16\n")
    told = {f.path: f.findings for f in analyse([tmp_path], Target(), jobs=1).files}
    for path in ("base.yaml", "run.sh"):
        (found,) = [each for each in told[path] if each.code in ("HPU802", "HPU806")]
        assert (found.fix is not None) is TAKES[takes]
        assert ("does not take `bf16`" in found.message) is not TAKES[takes]


USED = {
    "HPU717": ["from mmcv.runner import {0}\n\nuse({0}())\n", "import mmcv.runner\n\nuse(mmcv.runner.{0}(model))\n", "from mmcv.runner import build, {0} as ours\n\nif half:\n    ours(model)\n"],
    "HPU710": ["from {0} import DCN\n", "import {0}\n", "from {0}.more import DCN as D\n"],
}  # fmt: skip
NAMES = {"HPU717": ["Fp16OptimizerHook", "GradientCumulativeFp16OptimizerHook", "wrap_fp16_model"], "HPU710": ["dcn_v2", "DCNv2"]}  # fmt: skip


@pytest.mark.parametrize(("code", "form", "name"), [(c, f, n) for c in USED for f in USED[c] for n in NAMES[c]])  # fmt: skip
def test_libraries_that_end_in_cuda(code: str, form: str, name: str) -> None:
    assert code in settled(form.format(name))[1]


GUARDS = [
    "if torch.cuda.is_available() is False and trt:\n        jit, trt = False, False",
    "if not torch.cuda.is_available() and (jit or trt):\n        jit = trt = False",
    "if not torch.cuda.is_available():\n        trt = False",
    "if torch.cuda.device_count() == 0:\n        trt, jit = None, 1",
    "trt = trt and torch.cuda.is_available()",
]  # fmt: skip
PATHS = {
    "model = Model()\n    if trt:\n        model.load_engine(1)": True,
    "model = Sub(2)\n    if trt is not None and trt:\n        model.load_engine(1)": True,
    "if trt:\n        convert(1)": True,
    "if trt:\n        import tensorrt": True,
    "model = Other()\n    if trt:\n        model.load_engine(1)": False,
    "model = Model()\n    if trt:\n        model.optional(1)": False,
    "if trt:\n        plain(1)": False,
}
ENGINES = """import torch


class Model:
    def load_engine(self, path):
        import tensorrt

        return tensorrt.Runtime(path)

    def optional(self, path):
        try:
            import tensorrt
        except ImportError:
            return None


class Sub(Model):
    pass


class Other:
    def load_engine(self, path):
        return path


def convert(path):
    import tensorrt as trt

    return trt.Builder(path)


def plain(path):
    return path
"""


@pytest.mark.parametrize(("guard", "path"), crossed(GUARDS, list(PATHS), rounds=3))
@pytest.mark.parametrize("beside", [False, True])
def test_a_guard_that_keeps_a_path_for_nvidia_off_stays(tmp_path: Path, guard: str, path: str, beside: bool) -> None:  # fmt: skip
    body = f"def run(jit, trt):\n    {guard}\n    {path}\n    return jit\n"
    imports = "import torch\nfrom engines import Model, Other, Sub, convert, plain\n\n\n"
    (tmp_path / "main.py").write_text((imports if beside else f"{ENGINES}\n\n") + body)
    (tmp_path / "engines.py").write_text(ENGINES)
    (found,) = [f for f in analyse([tmp_path], Target(), jobs=1).files if f.path == "main.py"]
    told = [each.code for each in found.findings]
    if beside or "Other" not in path:  # in one file a method is known by its name
        assert ("HPU028" in told or "HPU109" in told) == PATHS[path]


VERSIONS = {"118": True, "$CU": True, "${CU}": True, "$(cat cuda.txt)": True, "stom": False}
FROM_CUDA = ["pip3 install torch --index-url https://wheels.example.org/whl/cu{0}", 'pip install --extra-index-url "https://wheels.example.org/whl/nightly/cu{0}" torch', "pip install torch==2.1.0+cu{0}"]  # fmt: skip


@pytest.mark.parametrize("version", list(VERSIONS))
@pytest.mark.parametrize("form", FROM_CUDA)
@pytest.mark.parametrize("kind", list(FILES))
def test_a_build_for_cuda_whose_version_a_variable_holds(kind: str, form: str, version: str) -> None:  # fmt: skip
    name, text = FILES[kind]
    assert ("HPU814" in settled(text.format(form.format(version)), kind, name)[1]) == VERSIONS[version]  # fmt: skip


@pytest.mark.parametrize("lists", ["-L", "--list-gpus"])
@pytest.mark.parametrize("counts", ["| wc -l", "|wc -l", "| \\\n  wc --lines"])
@pytest.mark.parametrize("form", ["N=$(nvidia-smi {0})", "N=`nvidia-smi {0}`", "torchrun --nproc_per_node $(nvidia-smi {0}) train.py"])  # fmt: skip
def test_the_devices_are_counted_in_a_list_of_one_line_each(form: str, counts: str, lists: str) -> None:  # fmt: skip
    text = f"#!/bin/bash\nexport PT_HPU_LAZY_MODE=0\n{form}\n"
    context = Context(Target(), load(), unsafe=True)
    done = settle(text.format(f"{lists} {counts}"), "shell", "run.sh", context)
    assert done.text == text.replace("nvidia", "hl").format(
        f"-Q module_id -f csv,noheader {counts}"
    )
    assert f"hl-smi {lists}" in settle(text.format(lists), "shell", "run.sh", context).text


MADE = "/* Generated by Cython 3.0 */\n"


@pytest.mark.parametrize("suffix", [".cu", ".cuh"])
@pytest.mark.parametrize(("text", "lines"), [(MADE + "int x;\n" * 5000, None), ("\n" + MADE, None), ("int y;\n" * 9 + MADE + "int x;\n" * 5000, 9), ("int y;\n" * 9, 9)])  # fmt: skip
def test_what_cython_made_is_no_kernel_that_people_wrote(tmp_path: Path, text: str, lines: int | None, suffix: str) -> None:  # fmt: skip
    (tmp_path / f"ops{suffix}").write_text(text)
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(2))\n")
    report = analyse([tmp_path], Target(), jobs=1)
    assert [file.lines for file in report.kernels] == ([] if lines is None else [lines])


#: Packages whose names begin with NVIDIA's, and what is said of each: removed, of use here, or not known.
NVIDIAS = {
    "nvidia-cudnn-cu12==9.1.0.70": "it is a CUDA library; remove it",
    "nvidia-cublas": "it is a CUDA library; remove it",
    "nvidia-cusparselt-cu12": "it is a CUDA library; remove it",
    "nvidia-nccl-cu13": "it is a CUDA library; remove it",
    "nvidia-dali-cuda120": "Intel's media pipeline",
    "nvidia-ml-py": "pyhlml",
    "nvidia-physicsnemo": "its name contains NVIDIA, and hpushim does not know it",
    "nvidia-lm-eval>=25": "its name contains NVIDIA, and hpushim does not know it",
}
ASKS = {"requirements": ("requirements.txt", "torch\n{0}\n"), "shell": ("install.sh", "pip install -U '{0}'\n"), "yaml": ("environment.yml", "dependencies:\n  - pip:\n      - {0}\n")}  # fmt: skip


@pytest.mark.parametrize("package", list(NVIDIAS))
@pytest.mark.parametrize("kind", list(ASKS))
def test_a_name_that_begins_with_nvidia_is_no_cuda_library_for_that(package: str, kind: str) -> None:  # fmt: skip
    name, text = ASKS[kind]
    told = settle(text.format(package), kind, name, Context(Target(), load())).findings  # type: ignore[arg-type]
    said = [finding.message for finding in told if finding.code == "HPU815"]
    assert len(said) == 1
    assert NVIDIAS[package] in said[0]
    assert ("remove it" in said[0]) == NVIDIAS[package].endswith("remove it")


@pytest.mark.parametrize(
    ("release", "pin", "status"),
    [("1.24", "", "native"), ("1.24", "==0.6.0", "native"), ("1.24", "==0.5.9", "partial"), ("1.23", "==0.6.0", "changed"), ("1.23", "", "changed")],
)  # fmt: skip
def test_e3nn_by_release_and_version(release: str, pin: str, status: str) -> None:
    text = Text("import e3nn\n", "a.py", Target(stack=release), load())
    row = load().row("e3nn", "package")
    assert row is not None
    assert assess(text, row, pin).status == status
