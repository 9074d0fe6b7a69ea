"""Which files are found, and what is said about the others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpushim.engine.data.document import Kind
from hpushim.engine.files import discover as discover_module
from hpushim.engine.files import mounts
from hpushim.engine.files.discover import File, discover, left_out, project_root
from hpushim.errors import HpushimError

KINDS: frozenset[Kind] = frozenset(
    {"python", "notebook", "yaml", "shell", "dockerfile", "requirements"}
)


def lay(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    for name, content in contents.items():
        (root / name).write_text(content, encoding="utf-8")


def found(root: Path, *paths: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    return [f.shown for f in discover(paths or (root,), root, KINDS, exclude).files]


def passed(root: Path) -> dict[str, str]:
    return {item.shown: item.reason for item in discover((root,), root, KINDS).passed}


def test_kinds_by_name_and_first_line(tmp_path: Path) -> None:
    lay(
        tmp_path, "a.py", "n.ipynb", "c.yml", "s.sh", "Dockerfile", "Dockerfile.gpu", "x.txt", "a.c"
    )
    lay(
        tmp_path,
        "requirements.txt",
        "requirements-dev.txt",
        "requirements/base.txt",
        "requirements.py",
    )
    (tmp_path / "tool").write_text("#!/usr/bin/env python3\n")
    (tmp_path / "launch").write_text("#!/bin/bash\n")
    (tmp_path / "LICENSE").write_text("text\n")
    files = discover((tmp_path,), tmp_path, KINDS).files
    assert {f.shown: f.kind for f in files} == {
        "Dockerfile": "dockerfile",
        "Dockerfile.gpu": "dockerfile",
        "a.py": "python",
        "c.yml": "yaml",
        "launch": "shell",
        "n.ipynb": "notebook",
        "requirements-dev.txt": "requirements",
        "requirements.py": "python",
        "requirements.txt": "requirements",
        "requirements/base.txt": "requirements",
        "s.sh": "shell",
        "tool": "python",
    }


def test_what_git_tracks_is_looked_at_whatever_gitignore_says(tmp_path: Path) -> None:
    lay(tmp_path, "data/kept.py", "data/deep/kept.py", "data/new.py", "gone/new.py", "run.gen.py")
    lay(
        tmp_path,
        "data/__pycache__/kept.py",
        "b.gen.py",
        **{".gitignore": "data/\ngone/\n*.gen.py\n"},
    )
    ours = ("data/kept.py", "data/deep/kept.py", "run.gen.py", "data/__pycache__/kept.py")
    for words in (("init", "-q"), ("add", "-f", *ours)):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert found(tmp_path) == ["data/deep/kept.py", "data/kept.py", "run.gen.py"]
    assert found(tmp_path, tmp_path / "data" / "deep") == ["data/deep/kept.py"]
    assert found(tmp_path, exclude=("deep",)) == ["data/kept.py", "run.gen.py"]
    (tmp_path / ".git" / "index").write_bytes(b"no index")
    assert found(tmp_path) == []  # git cannot answer: the patterns decide


def test_gitignore_nested_negated_and_from_above(tmp_path: Path) -> None:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("local.py\n")
    lay(tmp_path, "sub/a.py", "sub/out/b.py", "sub/keep/out/c.py", "sub/local.py", "sub/x.gen.py")
    lay(tmp_path, "sub/keep.gen.py")
    (tmp_path / ".gitignore").write_text("out/\n*.gen.py\n")
    (tmp_path / "sub" / ".gitignore").write_text("!keep.gen.py\n")
    (tmp_path / "sub" / "keep" / ".gitignore").write_text("!out/\n")
    sub = tmp_path / "sub"
    assert found(sub) == ["a.py", "keep.gen.py", "keep/out/c.py"]


def test_a_folder_that_is_ignored_itself_is_looked_at_when_named(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n")
    lay(tmp_path, "build/a.py")
    assert found(tmp_path) == []
    assert found(tmp_path / "build") == ["a.py"]


def test_a_broken_pattern_does_not_hide_the_others(tmp_path: Path) -> None:
    lay(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_bytes(b"!\n[\nb.py\n\xff\n")
    assert found(tmp_path) == ["a.py"]


def test_what_is_nobodys_code_is_passed_over(tmp_path: Path) -> None:
    lay(tmp_path, "a.py", "venv/pyvenv.cfg", "venv/b.py", "env/conda-meta/x", "env/c.py")
    lay(tmp_path, "node_modules/d.py", ".hpushim/runs/e.py", "x.egg-info/f.py", "__pycache__/g.py")
    lay(tmp_path, "third_party/h.py", "sub/.git/x", "sub/i.py", ".github/ci.yml")
    assert found(tmp_path) == [".github/ci.yml", "a.py"]
    reasons = passed(tmp_path)
    assert set(reasons) == {"sub/", "third_party/"}
    assert "copied" in reasons["third_party/"] and "repository" in reasons["sub/"]
    assert found(tmp_path, tmp_path / "third_party") == ["third_party/h.py"]


@pytest.mark.parametrize("folder", ["third_party", "thirdparty", "vendor"])
@pytest.mark.parametrize("at", ["", "src/"])
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("from {0}.net import Net", True),
        ("import {0}.net as net", True),
        ("def f():\n    from {0} import net", True),
        ("from {0}_net import Net", False),
        ("import other.{0}", False),
        ("# from {0} import net", False),
        ("from .{0} import net", False),
    ],
)
def test_vendored_code_that_is_imported_is_a_part_of_the_program(tmp_path: Path, folder: str, at: str, line: str, part: bool) -> None:  # fmt: skip
    lay(tmp_path, f"{at}{folder}/net.py", f"{at}{folder}/b/deep.py", f"{at}train.py")
    (tmp_path / f"{at}train.py").write_text(line.format(folder) + "\n")
    assert (f"{at}{folder}/b/deep.py" in found(tmp_path, tmp_path)) == part


def test_vendored_code_is_imported_by_other_such_code(tmp_path: Path) -> None:
    lay(tmp_path, "third_party/a.py", "vendor/b.py", "_vendor/c.py", "train.py")
    (tmp_path / "train.py").write_text("import vendor.b\n")
    (tmp_path / "vendor/b.py").write_text("import third_party.a\n")
    assert found(tmp_path, tmp_path) == ["third_party/a.py", "train.py", "vendor/b.py"]


@pytest.mark.parametrize("folder", ["third_party", "thirdparty", "_vendor"])
@pytest.mark.parametrize("inner", [True, False])
def test_vendored_code_in_a_package_is_a_part_of_it(tmp_path: Path, folder: str, inner: bool) -> None:  # fmt: skip
    lay(tmp_path, *(["lib/__init__.py"] if inner else []), f"lib/{folder}/net/a.py")
    assert (f"lib/{folder}/net/a.py" in found(tmp_path)) == inner
    assert bool(passed(tmp_path)) != inner


def test_links_are_followed_once_and_never_in_circles(tmp_path: Path) -> None:
    lay(tmp_path, "project/a.py", "outside.py")
    project = tmp_path / "project"
    (project / "again.py").symlink_to("a.py")
    (project / "loop").symlink_to("..")
    (project / "self.py").symlink_to("self.py")
    (project / "dangling.py").symlink_to("nowhere.py")
    (project / "far.py").symlink_to(tmp_path / "outside.py")
    assert found(project) == ["a.py"]
    reasons = passed(project)
    assert set(reasons) == {"dangling.py", "far.py", "self.py"}
    assert found(project, project / "again.py", project / "a.py") == ["a.py"]
    named = discover((project / "dangling.py",), project, KINDS)
    assert named.passed[0].failed


def test_odd_names(tmp_path: Path) -> None:
    lay(tmp_path, "x.py/inner.py", "with space.py", "new\nline.py", "é.py")
    (tmp_path / os.fsdecode(b"latin\xe9.py")).write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.py")
    assert set(found(tmp_path)) == {
        "x.py/inner.py", "with space.py", "new\nline.py", "é.py", '"latin\\351.py"',
    }  # fmt: skip


def test_a_pipe_that_is_named_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert (
        discover((tmp_path / "pipe.py",), tmp_path, KINDS).passed[0].reason == "not a regular file"
    )


def test_exclude_and_missing(tmp_path: Path) -> None:
    lay(tmp_path, "a.py", "tests/b.py", "docs/c.py")
    assert found(tmp_path, exclude=("tests/", "/docs")) == ["a.py"]
    with pytest.raises(HpushimError, match="no such file"):
        found(tmp_path, tmp_path / "missing")


def test_data_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_bytes(b"x: 1\n" * 300_000)
    assert found(tmp_path) == []
    assert "MiB of yaml" in passed(tmp_path)["data.yaml"]
    assert found(tmp_path, tmp_path / "data.yaml") == ["data.yaml"]


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        (b"# Generated by the protocol buffer compiler.  DO NOT EDIT!\n", "a.py", "generated"),
        (
            b'"""This file was automatically generated from x.\n\n# Do NOT edit it\n"""\n',
            "a.py",
            "generated",
        ),
        (b"# @generated\n", "a.py", "generated"),
        (b"x = 1\n", "a_pb2.py", "generated"),
        (b"x = '" + b"a" * 60_000 + b"'\n", "a.py", "minified"),
        (b"# Code generated with the help of a friend\n", "a.py", None),
        (b"x = 'generated, do not edit'\n", "a.py", None),
        (b"x = 1\n" * 10_000, "a.py", None),
    ],
)
def test_generated_files(content: bytes, name: str, why: str | None) -> None:
    reason = left_out(File(Path(name), name, "python"), content)
    assert reason is None if why is None else why in (reason or "")
    assert left_out(File(Path(name), name, "python", explicit=True), content) is None


def test_the_root_of_files_is_their_project(tmp_path: Path) -> None:
    lay(tmp_path, "pyproject.toml", "src/a.py", "src/b/c.py")
    assert project_root([tmp_path / "src"]) == tmp_path / "src"
    assert project_root([tmp_path / "src" / "a.py"]) == tmp_path
    assert project_root([tmp_path / "src", tmp_path / "src" / "b" / "c.py"]) == tmp_path / "src"


@pytest.mark.parametrize("mark", [".git", "setup.py", "pyproject.toml", "hpushim.toml"])
@pytest.mark.parametrize("variable", ["HOME", "TMPDIR", ""])
def test_a_file_in_the_home_folder_makes_it_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, mark: str) -> None:  # fmt: skip
    home, project = tmp_path / "home", tmp_path / "home" / "work" / "net"
    project.mkdir(parents=True)
    (home / mark).touch()
    if variable:
        monkeypatch.setenv(variable, str(home))
    assert project_root([project / "train.py"]) == (project if variable else home)
    assert project_root([home / "train.py"]) == home
    (home / "work" / mark).touch()
    assert project_root([project / "train.py"]) == home / "work"


def test_a_submodule_that_is_not_fetched_is_told(tmp_path: Path) -> None:
    modules = '[submodule "ops"]\n\tpath = src/ops\n[submodule "kit"]\n\tpath = kit\n[submodule "here"]\n\tpath = here\n'
    lay(tmp_path, "src/a.py", "here/b.py", **{".gitmodules": modules, ".gitignore": "src/ops\n"})
    (tmp_path / "src" / "ops").mkdir()
    reasons = passed(tmp_path)
    assert sorted(reasons) == ["kit/", "src/ops/"]
    assert all("not fetched" in reason for reason in reasons.values())
    assert found(tmp_path) == ["here/b.py", "src/a.py"]


def test_results_are_one_line_and_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discover_module, "_MANY", 5)
    lay(tmp_path, *(f"out/run{n}/a/{m}.yaml" for n in range(2) for m in range(5)))
    lay(tmp_path, *(f"logs/{n}/config.yml" for n in range(5)), "train.py", "conf/one.yaml")
    lay(tmp_path, *(f"scripts/{n}.sh" for n in range(9)))
    shell = [f"scripts/{n}.sh" for n in range(9)]
    assert found(tmp_path) == ["conf/one.yaml", *shell, "train.py"]
    (reason,) = (why for shown, why in passed(tmp_path).items() if shown == "./")
    assert reason.startswith("15 yaml files in one folder or of one name")
    assert found(tmp_path, tmp_path / "out/run0/a/3.yaml") == ["out/run0/a/3.yaml"]
    lay(
        tmp_path, *(f"runs/{n}/at_{m}.yaml" for n in range(3) for m in range(2))
    )  # by numbers alone
    lay(tmp_path, *(f"sets/{name}.yaml" for name in ("a", "b1", "b2", "c")))
    kept = [f"sets/{name}.yaml" for name in ("a", "b1", "b2", "c")]
    assert found(tmp_path) == ["conf/one.yaml", *shell, *kept, "train.py"]
    (tmp_path / "logs/4/config.yml").unlink()
    assert "logs/0/config.yml" in found(tmp_path)


MOUNTS = (("/", False), ("/proc", True), ("/sys", True), ("/sys/mine", False), ("/home", False))


@pytest.mark.parametrize(
    ("folder", "kernel"),
    [
        ("/", False),
        ("/proc", True),
        ("/proc/1/fd", True),
        ("/processes", False),
        ("/sys/mine", False),
        ("/sys/mine/a", False),
        ("/sys/minerals", True),
        ("/home/me", False),
        ("/srv", False),
    ],
)
def test_the_nearest_mount_says_whether_the_kernel_makes_files_up(
    monkeypatch: pytest.MonkeyPatch, folder: str, kernel: bool
) -> None:
    monkeypatch.setattr(mounts, "_mounts", lambda: MOUNTS)
    assert mounts.of_the_kernel(folder) is kernel
    below = mounts.of_the_kernel_below(folder)
    assert below == {p for p, k in MOUNTS if k and p.startswith(folder.rstrip("/") + "/")}
