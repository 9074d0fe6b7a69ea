"""Packages are assessed by what the matrix says, else by their own files, and nothing of theirs is imported or run."""

from __future__ import annotations

import json
import struct
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpushim.cli import main
from hpushim.dependencies import Places, assess
from hpushim.dependencies.audit import audit
from hpushim.dependencies.imports import imported
from hpushim.dependencies.project import of_project
from hpushim.errors import HpushimError
from hpushim.matrix import load
from hpushim.model import ABSENT, Dependency, DependencyKind, Target


def elf(*needed: str) -> bytes:
    """A shared object of 64 bits with nothing but its names for the loader."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    entries, at = b"", 1
    for name in needed:
        entries += struct.pack("<qQ", 1, at)
        at += len(name) + 1
    entries += struct.pack("<qQ", 0, 0)
    start = 64 + len(names)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, start + len(entries), 0, 64, 0, 0, 64, 2, 0)  # fmt: skip
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    dynamic = struct.pack("<IIQQQQIIQQ", 0, 6, 0, 0, start, len(entries), 0, 0, 8, 16)
    return head + names + entries + strings + dynamic


def says(**files: bytes | str) -> tuple[DependencyKind, str]:
    data = {
        name.replace("__", "/").replace("_so", ".so").replace("_py", ".py").replace("_cu", ".cu"): text if isinstance(text, bytes) else text.encode()
        for name, text in files.items()
    }  # fmt: skip
    found = audit((name, len(text), lambda most, text=text: text[:most]) for name, text in data.items())  # type: ignore[misc]  # fmt: skip
    return found.kind, found.evidence


CHOOSES = 'd = "cuda" if torch.cuda.is_available() else "cpu"\n'


@pytest.mark.parametrize(
    ("files", "kind", "evidence"),
    [
        ({"p__a_py": "import torch\n"}, "plain Python", ""),
        ({"p__a_so": elf("libc.so.6", "libcudart.so.12")}, "compiled for CUDA", "p/a.so needs libcudart.so.12"),
        ({"p__a_so": elf("libc.so.6", "libtorch.so")}, "plain Python", ""),
        ({"p__a_so": b"\x7fELF\x02 ... __cudaRegisterFatBinary"}, "compiled for CUDA", "p/a.so needs the CUDA runtime inside it"),
        ({"p__k_cu": "__global__", "p__a_py": "from torch.utils.cpp_extension import load\n"}, "builds CUDA", "p/k.cu"),
        ({"p__k_cu": "__global__", "p__a_py": "import ctypes\n"}, "plain Python", ""),
        ({"p__a_py": "from torch.utils.cpp_extension import load\n"}, "plain Python", ""),
        ({"p__a_py": "\n\nCUDAExtension('a', [])"}, "builds CUDA", "p/a.py:3"),
        ({"p__a_py": "@triton.jit\ndef k(): pass\n"}, "Triton kernels", "p/a.py:1"),
        ({"p__a_py": "x = 1\nassert x.is_cuda  # cuda\n"}, "demands CUDA tensors", "p/a.py:2"),
        ({"p__a_py": CHOOSES}, "chooses its device", "p/a.py:1"),
        ({"p__a_py": "if not torch.cuda.is_available():\n    d = 'cpu'\nelse:\n    d = 'cuda:0'\n"}, "chooses its device", "p/a.py:1"),
        ({"p__a_py": "if torch.cuda.is_available():\n    n = 'cuda'\n"}, "plain Python", ""),
        ({"p__a_py": CHOOSES, "p__b_py": "if kind == 'hpu':\n"}, "knows hpu", "p/b.py:1"),
        ({"p__tests__a_py": CHOOSES}, "plain Python", ""),
        ({"p__a_py": CHOOSES + "this does not parse"}, "plain Python", ""),
    ],
)  # fmt: skip
def test_what_files_say(files: dict[str, bytes | str], kind: DependencyKind, evidence: str) -> None:
    assert says(**files) == (kind, evidence)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_shared_object_can_break_the_audit(noise: bytes, at: int) -> None:
    whole = elf("libcudart.so.12", "libm.so.6")
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    assert says(p__a_so=damaged)[0] in ("compiled for CUDA", "plain Python")
    assert says(p__a_so=whole[:at])[0] in ("compiled for CUDA", "plain Python")


def test_imports_are_counted_by_file_and_required_at_the_margin() -> None:
    sources = [
        b"import os, numpy as np, k2\nfrom torch.nn import Linear\nfrom . import here\nimport own.part\n",
        b"try:\n    import k2\n    import xformers.ops\nexcept ImportError: pass\n'''\nimport the package first\n'''\n",
    ]
    found = imported(sources, frozenset({"own"}))
    assert {name: tuple(each) for name, each in found.items()} == {
        "numpy": (1, True),
        "k2": (2, True),
        "torch": (1, True),
        "xformers": (1, False),
    }


def wheel(folder: Path, name: str, requires: str = "", **files: bytes) -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as made:
        lines = "".join(f"Requires-Dist: {each}\n" for each in requires.split())
        made.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n{lines}")
        for path, data in files.items():
            made.writestr(path.replace("__", "/").replace("_so", ".so").replace("_py", ".py"), data)


def assessed(source: bytes, root: Path, wheels: Path | None = None) -> dict[str, Dependency]:
    places = Places(root, None, wheels)
    found = assess([source], frozenset(), (), places, load(), Target())
    return {each.name: each for each in found}


def test_what_only_files_beside_training_import_is_aside(tmp_path: Path) -> None:
    places = Places(tmp_path, None, None)
    sources, beside = [b"import one_zq\n"], [b"import one_zq, two_zq\nimport flash_attn\n"]
    found = assess(sources, frozenset(), ["three_zq"], places, load(), Target(), beside)
    assert [(each.name, each.files, each.required, each.aside) for each in found] == [
        ("one_zq", 1, True, False),
        ("three_zq", 0, False, False),
        ("flash_attn", 1, False, True),
        ("two_zq", 1, False, True),
    ]


def test_a_requirement_is_the_package_that_it_installs(tmp_path: Path) -> None:
    places = Places(tmp_path, None, None)
    required = ["scikit-learn", "opencv-python", "PyYAML"]
    found = assess([b"import sklearn\n"], frozenset(), required, places, load(), Target())
    assert [(each.name, each.files) for each in found] == [("sklearn", 1), ("cv2", 0), ("yaml", 0)]


@pytest.mark.parametrize(
    ("files", "open_ones"),
    [
        ({"run/__init__.py": "", "run/main.py": "import near_zq, far_zq\n", "run/near_zq.py": ""}, ["far_zq"]),
        ({"run/__init__.py": "", "run/main.py": "from part_zq.a import f\n", "run/part_zq/a.py": ""}, []),
        ({"run/__init__.py": "", "run/a.py": "import near_zq\n", "run/near_zq.py": "", "requirements.txt": "near-zq\n"}, ["near_zq"]),
        # A folder inside a package has not the name of an installed one.
        ({"run/__init__.py": "", "run/a.py": "from train_zq import T\n", "run/net/x/__init__.py": "", "run/net/x/y/train_zq/b.py": "", "requirements.txt": "train-zq\n"}, ["train_zq"]),
        # A module hides a package from what may import it by this name, and it means the package itself where it imports its own name.
        ({"train.py": "import sim_zq\n", "envs/sim_zq.py": ""}, ["sim_zq"]),
        ({"train.py": "import sim_zq\n", "envs/sim_zq.py": "from sim_zq import f\n", "envs/b.py": "import sim_zq\n"}, ["sim_zq"]),
        ({"train.py": "import sim_zq\n", "sim_zq.py": ""}, []),
        ({"train.py": "x = 1\n", "envs/a/b.py": "import sim_zq\n", "envs/sim_zq.py": ""}, []),
        ({"train.py": "import sys\nsys.path.append('envs')\nimport sim_zq\n", "envs/sim_zq.py": ""}, []),
        # What the project builds from Rust is its own.
        ({"run.py": "import rust_zq, far_zq\n", "lib/Cargo.toml": '[package]\nname = "x"\n\n[lib]\ncrate-type = ["cdylib"]\nname = "rust_zq"\n'}, ["far_zq"]),
        ({"run.py": "import fast_zq, far_zq\n", "ops/setup.py": "from torch.utils.cpp_extension import CUDAExtension\nx = CUDAExtension(\n    name='fast_zq.ops', sources=[])\n"}, ["far_zq"]),
    ],
)  # fmt: skip
def test_a_neighbour_of_a_script_in_a_package_is_no_dependency(
    tmp_path: Path, files: dict[str, str], open_ones: list[str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = of_project([tmp_path], (), Places(tmp_path, None, None), load(), Target())
    assert [each.name for each in found if each.kind == "not assessed"] == open_ones


#: An import of the project's own package, and whether the checkout lacks what it names; ``FETCHED`` where a script fetches it.
FETCHED = "git clone https://example.org/x/frnn\n"
OWN = {
    "from src.deps.frnn import f": True,
    "import src.deps.frnn.knn": True,
    "from ..deps.frnn import f": True,
    "from .deps.frnn import f": True,
    "from src.utils import net": False,
    "from src.utils.net import f": False,
    "from src import deps": False,
    "import other.deps.frnn": False,
    "from src.utils.ops import f": False,
    "from src.utils.frnn import f": None,
    "import src.frnn": None,
}


@pytest.mark.parametrize("line", OWN)
@pytest.mark.parametrize("way", ["", "try", "aside"])
@pytest.mark.parametrize("fetched", ["", "install.sh", ".gitmodules"])
def test_what_the_checkout_lacks_of_the_projects_own_packages(tmp_path: Path, line: str, way: str, fetched: str) -> None:  # fmt: skip
    code = f"try:\n    {line}\nexcept ImportError:\n    f = None\n" if way == "try" else line + "\n"
    files = {"src/__init__.py": "", "src/utils/__init__.py": "", "src/utils/net.py": code, "src/utils/ops.pyx": "", fetched or "x.sh": FETCHED if fetched else ""}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    reached = frozenset() if way == "aside" else frozenset({"src/utils/net.py"})
    found = of_project(
        [tmp_path], (), Places(tmp_path, None, None), load(), Target(), reached=reached
    )
    told = [each for each in found if each.evidence == ABSENT]
    lacks = OWN[line] if OWN[line] is not None else bool(fetched)
    assert bool(told) == (lacks and way != "aside")
    assert all(each.required is (way == "") and "frnn" in each.name for each in told)


def test_wheels_are_read_and_what_they_require_is_followed(tmp_path: Path) -> None:
    wheel(tmp_path, "front_zq", "kernels_zq back_zq; back_zq", front_zq____init___py=b"")
    wheel(tmp_path, "back_zq", "front_zq", back_zq__ops_so=elf("libcublas.so.12"))
    wheel(tmp_path, "broken_zq", broken_zq__a_py=b"")
    (tmp_path / "broken_zq-1.0-py3-none-any.whl").write_bytes(b"PK no zip")
    found = assessed(b"import torch, front_zq, broken_zq, flash_attn\n", tmp_path, tmp_path)
    assert found["front_zq"].kind == "compiled for CUDA"
    assert found["front_zq"].evidence == "requires back_zq: back_zq/ops.so needs libcublas.so.12"
    assert found["broken_zq"].kind == "not assessed"
    assert found["flash_attn"].assessed_by == "matrix"
    assert "torch" not in found


def environment(root: Path, **files: str) -> Path:
    site = root / ".venv" / "lib" / "python3.11" / "site-packages"
    (site / "zq").mkdir(parents=True)
    about = site / "zq-2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zq\nVersion: 2.0\n")
    names = [f"zq/{name}.py" for name in files]
    (about / "RECORD").write_text("".join(f"{name},,\n" for name in [*names, "../../secret.py"]))
    for name, text in files.items():
        (site / "zq" / f"{name}.py").write_text(text)
    return site


def test_an_environment_is_read_and_never_run(tmp_path: Path) -> None:
    site = environment(tmp_path, __init__="raise SystemExit('it ran')\n", choose=CHOOSES)
    (tmp_path / ".venv" / "secret.py").write_text("@triton.jit\n")
    found = assessed(b"import zq\n", tmp_path)["zq"]
    assert (found.kind, found.version) == ("chooses its device", "2.0")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\ntouch it-ran\n")
    assert Places(tmp_path / "elsewhere", python).imported("zq") is not None
    (site / "zq" / "choose.py").unlink()
    (site / "zq" / "choose.py").symlink_to("/dev/zero")
    assert assessed(b"import zq\n", tmp_path)["zq"].kind == "plain Python"
    with pytest.raises(HpushimError, match="no packages of an environment there"):
        Places(tmp_path, tmp_path / "elsewhere")


def test_the_report_names_what_needs_cuda(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path, "kernels_zq", kernels_zq__ops_so=elf("libcudart.so.12"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "requirements.txt").write_text("unseen-zq\n")
    (project / "train.py").write_text("import kernels_zq\nimport nobody_zq\nimport torch\n")
    command = ["hpushim", "report", str(project), "--wheels", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert _ends(0)
    text = capsys.readouterr().out
    assert text.startswith("Verdict: needs work. ")
    assert (
        "kernels_zq (1 file) needs CUDA. Not counted: work for the package `nobody_zq`; to assess it, add `--env PYTHON`"
        in text
    )
    assert "  kernels_zq 1.0: 1 file: compiled for CUDA, " in text
    assert (
        "not assessed (not in the matrix, and not installed where hpushim runs): nobody_zq (1), unseen_zq (0)\n"
        in text
    )
    monkeypatch.setattr(sys, "argv", [*command, "--format", "json"])
    assert _ends(0)
    found = json.loads(capsys.readouterr().out)["dependencies"]
    assert [each["name"] for each in found] == ["kernels_zq", "nobody_zq", "unseen_zq"]
    (project / "train.py").write_text(
        "try:\n    import kernels_zq\nexcept ImportError:\n    pass\n"
    )
    monkeypatch.setattr(sys, "argv", command)
    assert _ends(0)
    assert capsys.readouterr().out.startswith("Verdict: nothing to do. ")


def _ends(code: int) -> bool:
    try:
        return (main() or 0) == code
    except SystemExit as end:
        return (end.code or 0) == code
