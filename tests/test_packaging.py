"""What is installed: the wheel from a clean copy holds every file of the tree, and nothing beside."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a clean copy: a build folder left in the tree would leak deleted modules into the wheel.
    copy = tmp_path_factory.mktemp("source") / "hpushim"
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if tracked.returncode:
        pytest.skip("not a git checkout: the clean copy is made from git's list of files")
    for name in filter(None, tracked.stdout.decode().split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    out = copy.parent / "dist"
    # sdist first, then the wheel from it: both must be whole
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_tree(wheel: Path) -> None:
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    expected = {"hpushim/data/compat_matrix.toml", "hpushim/data/compat_matrix.readings.toml"}
    for path in (ROOT / "hpushim").rglob("*"):
        relative = path.relative_to(ROOT).as_posix()
        if not path.is_file() or "__pycache__" in relative or path.suffix in (".so", ".pyc"):
            continue
        if relative.startswith("hpushim/shim/entry/"):
            expected.add(relative.replace("hpushim/shim/entry/", "_hpushim/"))
        else:
            expected.add(relative)
    expected.add("hpushim.pth")
    expected |= {
        f"hpushim/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "codemods").rglob("*.[pm][yd]")
        if "__pycache__" not in path.parts
    }
    assert names == expected


def test_only_our_three_names_reach_site_packages(wheel: Path) -> None:
    tops = {n.split("/")[0] for n in zipfile.ZipFile(wheel).namelist()}
    assert {t for t in tops if not t.endswith(".dist-info")} == {
        "hpushim",
        "_hpushim",
        "hpushim.pth",
    }


def test_the_installed_wheel_offers_the_look_alike_where_emulation_is_asked_for(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = (
        f"import site; site.addsitedir({str(tmp_path)!r})\n"
        "import importlib.util as u, sys\n"
        "spec = u.find_spec('habana_frameworks')\n"
        "print(*(spec.submodule_search_locations if spec else ['none']), 'torch' in sys.modules)"
    )
    for asked, place in (("emulate", str(tmp_path)), ("off", "none")):
        done = subprocess.run(
            # isolated: the interpreter's own site-packages hold the tree under test
            [sys.executable, "-S", "-c", code],
            env={"HPUSHIM": asked},
            cwd=tmp_path.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith(place) and done.stdout.endswith("False\n"), done.stdout


def test_the_installed_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir()
    script.write_text('import torch\nx = torch.zeros(1, device="cuda")\n')
    code = (
        f"import sys; sys.path.insert(0, {str(target)!r}); import hpushim; "
        f"assert hpushim.__file__.startswith({str(target)!r}), hpushim.__file__; "
        f"from hpushim.cli import main; sys.exit(main(['check', {str(script.parent)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "HPU105" in done.stdout


def test_nothing_bounds_torch_or_asks_for_the_vendor_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(text) for group in groups for text in group]
    assert not any("habana" in r.name for r in requirements)
    for r in requirements:
        if r.name == "torch":
            assert {s.operator for s in r.specifier} == {">="}
    assert not any(r.name == "torch" for r in map(Requirement, project["dependencies"]))


def test_what_is_imported_is_declared() -> None:
    """Whatever torch, which is optional, would bring along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {Requirement(text).name.replace("-", "_") for text in project["dependencies"]}
    declared |= {"yaml" if "pyyaml" in declared else "", "torch", "habana_frameworks", "setuptools"}
    files = [*(ROOT / "hpushim").rglob("*.py"), *(ROOT / "codemods").rglob("*.py")]
    taken: dict[str, str] = {}
    for path in files:
        if "site" in path.relative_to(ROOT).parts:
            continue  # what the emulator puts in place of Gaudi's packages
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                taken.update((alias.name.partition(".")[0], path.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                taken[(node.module or "").partition(".")[0]] = path.name
    others = {name: path for name, path in taken.items() if name not in sys.stdlib_module_names}
    assert {"jinja2", "libcst"} < {*others}
    assert {name: path for name, path in others.items() if name not in declared | {"hpushim"}} == {}


def test_the_root_holds_no_python() -> None:
    # hpushim.data is the root: any module there would ship as hpushim/data/…
    assert not list(ROOT.glob("*.py"))


def test_the_sdist_has_the_documents_and_no_tests(wheel: Path) -> None:
    (sdist,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs/limits.md", "docs/example/train.py"}  # fmt: skip
    assert wanted <= names
    assert not [name for name in names if name.startswith(("tests", ".")) or name.endswith((".pyc", ".so"))]  # fmt: skip


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == project["version"]
    assert f"## {project['version']} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_published_links_lead_to_the_repository() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        release = importlib.import_module("release")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    text = release.absolute((ROOT / "README.md").read_text(encoding="utf-8"), "https://h/o/r", "v1")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10 and all(link.startswith(("https://", "#")) for link in links)
    assert "](https://h/o/r/blob/v1/docs/limits.md)" in text
    assert "](https://h/o/r/raw/v1/docs/report.png)" in text
    project = release.with_urls((ROOT / "pyproject.toml").read_text(encoding="utf-8"), "https://h/o/r")  # fmt: skip
    assert tomllib.loads(project)["project"]["urls"]["Homepage"] == "https://h/o/r"
