"""Files that are one backend of several, and functions registered as kernels: what is CUDA's stays CUDA's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpushim.engine.project import migrate
from hpushim.matrix import load
from hpushim.model import Target

CUDA = "import torch\n\n\nclass Device:\n    def move(self, x):\n        return x.cuda()\n"
XPU = 'import torch\n\n\nclass Device:\n    def move(self, x):\n        return x.to("xpu") if x.ok else x.cuda()\n'


def run(root: Path, files: dict[str, str]) -> dict[str, tuple[bool, set[str]]]:
    """For each file, whether it is rewritten, and the codes of its findings."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    result = migrate([root], Target(), matrix=load(), write=False, jobs=1)
    return {
        Path(file.path).as_posix(): (file.after is not None, {f.code for f in file.findings})
        for file in result.files
    }


@pytest.mark.parametrize(
    ("cuda", "other"),
    [
        ("accelerators/cuda.py", "accelerators/xpu.py"),
        ("cuda_accelerator.py", "npu_accelerator.py"),
        ("backends/cuda/ops.py", "backends/mps/ops.py"),
        ("tests/test_cuda.py", "tests/test_xpu.py"),
        ("pkg/cuda.py", "pkg/hpu.py"),
    ],
)
def test_one_backend_of_several_stays(tmp_path: Path, cuda: str, other: str) -> None:
    found = run(tmp_path, {cuda: CUDA, other: "import torch\n"})
    assert found[cuda] == (False, {"HPU026"})


@pytest.mark.parametrize(
    ("cuda", "other"),
    [
        ("cuda.py", "cpu.py"),  # the host's is no other backend
        ("cuda.py", "utils.py"),
        ("barracuda.py", "barraxpu.py"),  # part of a word
        ("sub/cuda.py", "xpu.py"),  # of another folder
    ],
)
def test_a_file_named_for_cuda_alone_is_rewritten(tmp_path: Path, cuda: str, other: str) -> None:
    changed, codes = run(tmp_path, {cuda: CUDA, other: "import torch\n"})[cuda]
    assert changed
    assert "HPU026" not in codes


def test_a_program_for_cuda_is_rewritten(tmp_path: Path) -> None:
    program = f'{CUDA}\n\nif __name__ == "__main__":\n    Device()\n'
    found = run(tmp_path, {"train_cuda.py": program, "train_xpu.py": "import torch\n"})
    assert found["train_cuda.py"][0]


@pytest.mark.parametrize("name", ["examples/xpu/train.py", "xpu_accelerator.py"])
def test_a_file_for_another_accelerator_stays(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, {name: XPU})[name] == (False, {"HPU026"})


def test_a_name_alone_makes_no_file_for_another_accelerator(tmp_path: Path) -> None:
    changed, codes = run(tmp_path, {"npu.py": CUDA})["npu.py"]
    assert changed
    assert "HPU026" not in codes


REGISTRATIONS = {
    "decorator": '@{0}("n::f", "cuda")\n{1}',
    "keyword": '@{0}("n::f", device="cuda")\n{1}',
    "list": '@{0}("n::f", ["cuda"])\n{1}',
    "call": '{1}\n\n{0}("n::f", f, "cuda")\n',
    "key": '{1}\n\n{0}("n::f", f, dispatch_key="CUDA")\n',
}


@pytest.mark.parametrize("form", REGISTRATIONS)
@pytest.mark.parametrize(
    "name", ["torch.library.impl", "register_kernel", "self.lib.impl", "_register_op"]
)
def test_kernels_registered_for_cuda_stay(tmp_path: Path, form: str, name: str) -> None:
    body = "def f(x):\n    assert x.is_cuda\n    return x.cuda()\n"
    text = f"import torch\n\n\n{REGISTRATIONS[form].format(name, body)}\n\ndef g(x):\n    return x.cuda()\n"
    text = (
        text if name.startswith("torch") or "self" not in name else text.replace("self.lib", "lib")
    )
    (tmp_path / "ops.py").write_text(text)
    result = migrate([tmp_path], Target(), matrix=load(), write=False, jobs=1).files[0]
    assert result.after is not None
    assert result.after.decode() == text.replace(
        "def g(x):\n    return x.cuda()", 'def g(x):\n    return x.to("hpu")'
    )
    assert "HPU725" in {finding.code for finding in result.findings}


@pytest.mark.parametrize(
    "call",
    [
        'register_buffer("cuda", x.cuda())',
        'register("cuda", device="cuda")',
        'impl = make("cuda", x.cuda())',
    ],
)
def test_what_only_sounds_like_a_registration_is_rewritten(tmp_path: Path, call: str) -> None:
    (tmp_path / "ops.py").write_text(f"import torch\n\nx = torch.zeros(2)\n{call}\ny = x.cuda()\n")
    result = migrate([tmp_path], Target(), matrix=load(), write=False, jobs=1).files[0]
    assert "HPU725" not in {finding.code for finding in result.findings}


@pytest.mark.parametrize(
    "head",
    [
        "import tilelang\n",
        "import tensorrt as trt\n",
        "from tensorrt_llm.runtime import Session\n",
        "import triton\nimport triton.language as tl\n",
        "import pycuda.driver as cuda\n",
    ],
)
def test_a_file_of_kernels_for_nvidia_stays_whole(tmp_path: Path, head: str) -> None:
    changed, codes = run(tmp_path, {"ops.py": head + CUDA})["ops.py"]
    assert not changed
    assert "HPU026" in codes


@pytest.mark.parametrize(
    "head",
    [
        "try:\n    import triton\nexcept ImportError:\n    triton = None\n",
        "def fast():\n    import tensorrt\n",
        "import flash_attn\n",  # has another form on Gaudi
        "from .triton import kernel\n",
        "import triton\n\ndef train(optimizer):\n    optimizer.step()\n",  # kernels are one part of it
    ],
)
def test_a_file_that_can_do_without_them_is_rewritten(tmp_path: Path, head: str) -> None:
    assert run(tmp_path, {"ops.py": head + CUDA})["ops.py"][0]
