"""Looking at a project runs nothing of it: no program that its git names, no module of its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
from crossed import crossed

from hpushim import quiet_git
from hpushim.engine.files import git
from hpushim.errors import HpushimError

pytestmark = [pytest.mark.hostile("running")]
Run = Callable[..., runs.Done]


def in_git(folder: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark when it runs."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/SPRUNG\nexec cat\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def repository(project: Path) -> Path:
    in_git(project, "init", "-q")
    in_git(project, "add", ".")
    in_git(project, "commit", "-qm", "x")
    return project


SETTINGS = (
    "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "core.hooksPath",
    "core.pager", "pager.status", "pager.ls-files", "core.editor", "core.sshCommand", "core.gitProxy", "core.askPass",
    "diff.external", "diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "gpg.program", "gpg.ssh.program",
    "credential.helper", "alias.ls-files", "alias.status", "alias.ls-tree", "alias.check-ignore", "core.alternateRefsCommand",
    "uploadpack.packObjectsHook", "interactive.diffFilter", "sequence.editor", "trace2.eventTarget", "core.gitproxy",
)  # fmt: skip


@pytest.mark.parametrize(("dirty", "setting"), crossed([False, True], SETTINGS, rounds=1))
def test_a_program_in_the_configuration(
    repository: Path, trap: Path, hpushim: Run, setting: str, dirty: bool
) -> None:
    """the repository's configuration names a program"""
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    in_git(repository, "config", setting, str(trap.parent if "hooks" in setting else trap))
    os.utime(repository / "train.py", (1, 1))  # git must look at the content
    if dirty:
        (repository / "train.py").write_text((repository / "train.py").read_text() + "# mine\n")
    done = hpushim("migrate", ".")
    assert not (trap.parent / "SPRUNG").exists()
    assert done.code == (2 if dirty else 0), done.said


@pytest.mark.parametrize(
    "hook",
    ["post-index-change", "pre-commit", "post-checkout", "reference-transaction", "fsmonitor-watchman"],
)  # fmt: skip
def test_a_hook(repository: Path, trap: Path, hpushim: Run, hook: str) -> None:
    """the repository has a hook"""
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    (repository / ".git" / "hooks" / hook).symlink_to(trap)
    os.utime(repository / "train.py", (1, 1))
    assert hpushim("migrate", ".").code == 0
    assert not (trap.parent / "SPRUNG").exists()


@pytest.mark.parametrize("url", ["ext::{trap}", "ssh://host/x", "{trap}", "git://host/x", "https://host/x"])  # fmt: skip
def test_a_promise_to_fetch(repository: Path, trap: Path, hpushim: Run, url: str) -> None:
    """objects are missing and the configuration says where to get them"""
    for name, value in (
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
        ("remote.origin.url", url.format(trap=trap)),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", str(trap)),
        ("core.sshCommand", str(trap)),
        ("protocol.ext.allow", "always"),
        ("credential.helper", str(trap)),
    ):
        in_git(repository, "config", name, value)
    tree = in_git(repository, "rev-parse", "HEAD^{tree}").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    done = hpushim("migrate", ".")
    assert done.code == 2 and "--allow-dirty" in done.err
    assert not (trap.parent / "SPRUNG").exists()


def test_a_configuration_that_never_ends(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """the configuration includes a pipe: git itself would wait for ever"""
    os.mkfifo(tmp_path / "pipe")
    in_git(repository, "config", "include.path", str(tmp_path / "pipe"))
    monkeypatch.setattr(quiet_git, "PATIENCE", 0.5)
    with pytest.raises(HpushimError, match="no answer"):
        git.uncommitted([repository / "train.py"])


@pytest.mark.parametrize("path", [".", "", "bin", "./bin", "..//project"])
def test_a_git_of_the_project(repository: Path, trap: Path, hpushim: Run, path: str) -> None:
    """PATH leads into the current folder, where a program is called git"""
    (repository / "bin").mkdir()
    for name in ("git", "bin/git"):
        (repository / name).symlink_to(trap)
    assert hpushim("migrate", ".", PATH=f"{path}:{os.environ['PATH']}").code == 0
    assert not (trap.parent / "SPRUNG").exists()


@pytest.mark.parametrize("attribute", ["filter=evil", "text eol=crlf", "ident", "working-tree-encoding=UTF-16"])  # fmt: skip
def test_what_only_a_filter_could_tell(repository: Path, hpushim: Run, attribute: str) -> None:
    """the bytes on disk are not those of the commit because of an attribute"""
    text = (repository / "train.py").read_text() + "# $Id$\n"
    (repository / "train.py").write_text(text)
    in_git(repository, "commit", "-qam", "y")
    (repository / ".gitattributes").write_text(f"*.py {attribute}\n")
    data = text.replace("\n", "\r\n") if "crlf" in attribute else text.replace("$Id$", "$Id: 1 $")
    (repository / "train.py").write_text(data, newline="")
    done = hpushim("migrate", ".")
    assert done.code == (0 if "crlf" in attribute else 2)


STATES = (
    "committed",
    "changed",
    "staged",
    "new",
    "ignored",
    "deleted from the index",
    "no commit yet",
    "in conflict",
)


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
@pytest.mark.parametrize("state", STATES)
def test_the_same_answer_as_git(
    project: Path, state: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """states of a file that git tells apart"""
    if many:
        monkeypatch.setattr(git, "_MANY", 0)
    file = project / "sub" / "odd *name\n.py"
    file.parent.mkdir()
    file.write_text("x\n")
    in_git(project, "init", "-q")
    in_git(project, "config", "commit.gpgsign", "false")
    if state != "no commit yet":
        (project / "other").write_text("x")
        in_git(project, "add", *(["."] if state not in ("new", "ignored") else ["other"]))
        in_git(project, "commit", "-qm", "x")
    if state == "ignored":
        (project / ".gitignore").write_text("*.py\n")
    if state in ("changed", "staged"):
        file.write_text("y\n")
    if state == "staged":
        in_git(project, "add", ".")
        assert file.write_text("y\n")
    if state == "deleted from the index":
        in_git(project, "rm", "-q", "--cached", "-r", "sub")
    if state == "in conflict":
        in_git(project, "checkout", "-qb", "b")
        file.write_text("b\n")
        in_git(project, "commit", "-qam", "b")
        in_git(project, "checkout", "-q", "-")
        file.write_text("c\n")
        in_git(project, "commit", "-qam", "c")
        subprocess.run(["git", "merge", "-q", "b"], cwd=project, check=False, capture_output=True)
    said = in_git(project, "status", "--porcelain", "-z", "--untracked-files=all", "--", "sub")
    assert git.uncommitted([file]) == ([file] if said else [])


MODULES = ("typing", "gc", "contextlib", "importlib", "re", "json", "hashlib", "click", "rich", "msgspec", "tomli", "yaml",
           "libcst", "torch", "tree_sitter", "difflib", "stat", "subprocess", "traceback", "sitecustomize_", "codemods")  # fmt: skip


COMMANDS = (
    ("migrate", "."), ("check", "."), ("report", "."), ("explain", "101"), ("api", "torch.cuda"),
    ("matrix", "stats"), ("--help",), ("migrate", "--undo", "."),
)  # fmt: skip


@pytest.mark.parametrize(("how", "words"), crossed([("-m", "hpushim"), ("-Bmhpushim",), ("-W", "ignore", "-m", "hpushim")], COMMANDS, rounds=1), ids=" ".join)  # fmt: skip
def test_modules_of_the_current_folder(
    tmp_path: Path, project: Path, words: tuple[str, ...], how: tuple[str, ...]
) -> None:
    """the current folder holds modules with the names of those that hpushim imports"""
    for name in MODULES:
        (project / f"{name}.py").write_text(f"open({str(tmp_path / 'SPRUNG')!r}, 'w')\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HPUSHIM", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, *how, *words], cwd=project, env=env, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert not (tmp_path / "SPRUNG").exists()


def test_a_sitecustomize_that_imports_hpushim_changes_nothing(project: Path) -> None:
    """python -m hpushim whose package was imported before Python put the current folder on the path, as prove's recorder does"""
    (project / "start").mkdir()
    (project / "start" / "sitecustomize.py").write_text("import hpushim\n")
    (project / "beside.py").write_text("")
    (project / "scripts").mkdir()
    script = project / "scripts" / "train.py"
    script.write_text("import importlib.util\nprint(importlib.util.find_spec('beside'))\n")
    env = {**os.environ, "PYTHONPATH": str(project / "start"), "HPUSHIM": "off"}
    for words in (["scripts/train.py"], ["-m", "hpushim", "run", "scripts/train.py"]):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "None\n", done.stderr


def test_a_package_of_the_users_keeps_its_folder(project: Path) -> None:
    """python -m of another package that imports hpushim: the current folder stays on the path"""
    (project / "mine").mkdir()
    (project / "mine" / "__init__.py").write_text("import hpushim\n")
    (project / "mine" / "__main__.py").write_text("import beside\n")
    (project / "beside.py").write_text("print('beside')\n")
    done = subprocess.run(
        [sys.executable, "-m", "mine"], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.stdout == "beside\n", done.stderr


def test_help_says_how_to_be_sure(hpushim: Run) -> None:
    """the help of the command"""
    assert "python -P -m hpushim" in hpushim("--help").out
