"""What `hpushim run` rewrites as it loads it: the user's files, the libraries that the policy names, nothing else."""

from __future__ import annotations

import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest
import warm

from hpushim.shim.run import compiling, import_hook

ROOT = Path(__file__).resolve().parent.parent.parent
ASKS = 'def on_gpu(device):\n    return device.type == "cuda"\n'


def run(script: Path, *path: Path) -> str:
    env = {k: v for k, v in os.environ.items() if k != "HPUSHIM"}
    env["PYTHONPATH"] = os.pathsep.join(map(str, path))
    done = warm.run(
        [sys.executable, "-m", "hpushim", "run", script],
        cwd=script.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def library(folder: Path, name: str, version: str) -> Path:
    package = folder / "site-packages" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
    (package / "devices.py").write_text(ASKS)
    metadata = package.parent / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder / "site-packages"


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("lightning", "2.6.6", "True"),  # meets CUDA, compares by itself
        ("lightning", "2.5.5", "False"),  # knows hpu
        ("some_library", "1.0", "False"),  # nobody's business
    ],
)
def test_a_librarys_comparisons_follow_the_policy(
    tmp_path: Path, name: str, version: str, said: str
) -> None:
    site = library(tmp_path, name, version)
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text(
        f"import torch\nfrom {name}.devices import on_gpu\nprint(on_gpu(torch.device('cuda')))\n"
    )
    assert run(script, site) == said


def test_a_checkout_below_the_script_is_not_rewritten(tmp_path: Path) -> None:
    checkout = tmp_path / "vendored"
    shutil.copytree(
        ROOT / "hpushim", checkout / "hpushim", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "compat_matrix.toml", checkout)
    (tmp_path / "asks.py").write_text(ASKS)
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom asks import on_gpu\nprint(on_gpu(torch.zeros(1, device='cuda').device))\n"
    )
    assert run(script, checkout) == "True"


def project(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A project with these files in a folder of its own."""
    for file, text in files.items():
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(text)
    return folder / name


PRINTS = "import torch\nfrom {module} import on_gpu\nprint(on_gpu(torch.ones(1).cuda().device))\n"
# What `pip install -e` leaves: a finder of its own on sys.meta_path, or a path.
EDITABLE = """
import importlib.machinery, importlib.util, sys
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name == "package":
            return importlib.util.spec_from_file_location(name, {init!r}, submodule_search_locations=[{folder!r}])
sys.meta_path.append(Finder)
"""


@pytest.mark.parametrize(
    ("files", "script", "path"),
    [
        ({"src/package/__init__.py": "", "src/package/devices.py": ASKS}, "scripts/train.py", ["src"]),
        ({"package/devices.py": ASKS}, "scripts/train.py", ["."]),  # a namespace package
        ({"package/__init__.py": "", "package/devices.py": ASKS}, "deep/down/train.py", ["."]),
        ({"elsewhere/package/__init__.py": "", "elsewhere/package/devices.py": ASKS}, "train.py", ["elsewhere"]),
    ],
    ids=["scripts beside src", "namespace package", "package at the root", "on PYTHONPATH"],
)  # fmt: skip
def test_it_reaches_what_the_user_owns(
    tmp_path: Path, files: dict[str, str], script: str, path: list[str]
) -> None:
    text = PRINTS.format(module="package.devices")
    root = project(tmp_path, "project", {**files, script: text, "pyproject.toml": ""})
    assert run(root / script, *(root / one for one in path)) == "True"
    assert not list(root.rglob("devices.*.pyc")), "rewritten code was cached"


def test_it_reaches_editable_installs_by_any_finder(tmp_path: Path) -> None:
    root = project(tmp_path, "other", {"src/package/__init__.py": ASKS})
    init = root / "src" / "package" / "__init__.py"
    finder = EDITABLE.format(init=str(init), folder=str(init.parent))
    script = project(tmp_path, "mine", {"train.py": finder + PRINTS.format(module="package")})
    assert run(script / "train.py") == "True"
    site = project(tmp_path, "site-packages", {"__editable__.pth": str(root / "src")})
    code = f"import site; site.addsitedir({str(site)!r})\n" + PRINTS.format(module="package")
    assert run(project(tmp_path, "third", {"train.py": code}) / "train.py") == "True"


def test_an_environment_below_the_script_is_left_alone(tmp_path: Path) -> None:
    files = {
        "env/pyvenv.cfg": "",
        "env/lib/inside.py": ASKS,
        "train.py": "import sys; sys.path.insert(0, 'env/lib')\n" + PRINTS.format(module="inside"),
    }
    assert run(project(tmp_path, "project", files) / "train.py") == "False"


OTHER_LOADER = """
import importlib.machinery, sys
class Loader(importlib.machinery.SourceFileLoader): pass
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "devices":
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            spec.loader = Loader(name, spec.origin)
            return spec
sys.meta_path.insert(0, Finder())
"""


def said(script: Path, *arguments: str, **environment: str) -> str:
    """The standard error of a script."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HPUSHIM") or "CACHE" in k}
    done = warm.run(
        [sys.executable, *arguments, script],
        cwd=script.parent,
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_module_that_cannot_be_rewritten_is_named(tmp_path: Path) -> None:
    text = OTHER_LOADER + PRINTS.format(module="devices")
    root = project(tmp_path, "project", {"train.py": text, "devices.py": ASKS})
    told = said(root / "train.py", "-m", "hpushim", "run")
    assert f"HPU107 {root / 'devices.py'}:2" in told and "cannot be rewritten" in told


def test_a_module_without_its_source_is_named(tmp_path: Path) -> None:
    root = project(tmp_path, "project", {"devices.py": ASKS})
    py_compile.compile(str(root / "devices.py"), str(root / "devices.pyc"))
    (root / "devices.py").unlink()
    (root / "train.py").write_text(PRINTS.format(module="devices"))
    told = said(root / "train.py", "-m", "hpushim", "run")
    assert f"HPU107 {root / 'devices.pyc'}" in told and "without its source" in told


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_plain_import_names_the_modules_that_compare(tmp_path: Path, order: str) -> None:
    lines = ["import torch, hpushim", "import devices, clean"]
    text = "\n".join(lines if order == "after" else lines[::-1]) + "\n"
    files = {"train.py": text, "devices.py": ASKS + "\n" + ASKS, "clean.py": "where = 'cuda'\n"}
    root = project(tmp_path, "project", files)
    told = said(root / "train.py", HPUSHIM="emulate", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    named = [line for line in told.splitlines() if "HPU107" in line]
    assert len(named) == 1 and f"{root / 'devices.py'}:2" in named[0] and "also line 5" in named[0]


def test_installing_twice_is_installing_once() -> None:
    before = list(sys.meta_path)
    try:
        import_hook.install(rewriting=False)
        import_hook.install(rewriting=False)
        assert len(sys.meta_path) == len(before) + 1
    finally:
        import_hook.uninstall()
    assert sys.meta_path == before


def test_source_that_is_nested_too_deep_runs_as_it_is(tmp_path: Path) -> None:
    deep = "x = " + "-" * 900 + "1\nprint('cuda' == 'hpu')\n"
    file = tmp_path / "deep.py"
    file.write_text(deep)
    exec(compiling.compiled(str(file), deep.encode()), {})
