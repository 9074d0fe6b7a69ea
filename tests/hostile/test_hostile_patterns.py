"""Ignore patterns mean what git says, and none of them takes long."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import runs
from crossed import crossed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpushim.engine.files.ignore import Patterns

pytestmark = [pytest.mark.hostile("patterns")]
Run = Callable[..., runs.Done]

SLOW = {
    "stars": "*a" * 500 + "b",
    "stars and marks": "*?" * 200 + "b",
    "stars and brackets": "*[a-z]" * 200 + "!",
    "folders": "**/a/" * 200 + "b",
    "folders of stars": "**/*a*a*a/" * 100 + "b",
    "a long bracket": "[" + "a" * 4000 + "]*b",
    "brackets that are not closed": "[" * 4000,
    "backslashes": "\\" * 4001,
    "stars alone": "*" * 4000 + "b",
    "too long": "a*" * 100_000,
    "ranges": "[a-zA-Z0-9" * 300 + "]" * 300,
    "classes": "[[:alpha:]" * 300 + "]" * 300,
    "classes unknown": "[[:nothing:]]*",
}


@pytest.mark.parametrize(("where", "pattern"), crossed([".gitignore", "pyproject.toml", "--exclude"], list(SLOW), rounds=1))  # fmt: skip
def test_a_pattern_that_takes_others_long(
    project: Path, hpushim: Run, pattern: str, where: str
) -> None:
    """patterns at which matchers that try again take for ever"""
    deep = project
    for _ in range(12):
        deep = deep / ("a" * 100)
    deep.mkdir(parents=True)
    for folder in (project, deep):
        for number in range(20):
            (folder / ("a" * (200 + number) + ".py")).write_text("x = 1\n")
    words: tuple[str, ...] = ("check", ".")
    if where == ".gitignore":
        (project / where).write_text(SLOW[pattern] + "\n")
    elif where == "pyproject.toml":
        value = SLOW[pattern].replace("\\", "\\\\")
        (project / where).write_text(f'[tool.hpushim]\nexclude = ["{value}"]\n')
    else:
        words = (*words, "--exclude", SLOW[pattern])
    done = hpushim(*words)
    assert done.code in (0, 1), done.said


def test_many_patterns(project: Path, hpushim: Run) -> None:
    """a hundred thousand patterns in one file"""
    lines = (f"*x{n}*\n/{n}/**/a\nname{n}\n*.e{n}\n!b{n}\n" for n in range(20_000))
    (project / ".gitignore").write_text("".join(lines))
    assert hpushim("check", ".").code == 1


@pytest.mark.parametrize("content", [b"\xff\xfe*\n", b"\xef\xbb\xbftrain.py\n", b"train.py\r\n", b"\0\n", b"train.py", b"!\n", b"/\n", b"#train.py\n", b" \n", b"*\n!train.py\n"])  # fmt: skip
def test_odd_ignore_files(project: Path, hpushim: Run, content: bytes) -> None:
    """ignore files with byte order marks, other line ends, NUL"""
    (project / ".gitignore").write_bytes(content)
    bare = content.removeprefix(b"\xef\xbb\xbf").strip()
    assert hpushim("check", ".").code == (0 if bare == b"train.py" else 1)


# -- against git ------------------------------------------------------------------------------

_pieces = st.sampled_from(
    ["a", "b", "a", "*", "*", "?", "/", "**/", "/**", "[ab]", "[!a]", "[a-", "]", "\\", "!", "#", " ", "-", ".py",
     "[[:alpha:]]", "*.b", "[^]a]", "\\*", "[b-a]", "é"]
)  # fmt: skip
_patterns = st.lists(st.lists(_pieces, min_size=1, max_size=6).map("".join), min_size=1, max_size=3)
_names = st.sampled_from(["a", "b", "ab", "ba", "aab", "a.py", ".py", "a.b", "-", "#a", "!a", "*", "aa", "a b", "a ", "]", "[", "\\", "b-a", "é"])  # fmt: skip
_paths = st.lists(st.lists(_names, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12, unique=True)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def by_git(repository: Path, patterns: list[str], paths: list[str]) -> list[bool]:
    (repository / ".gitignore").write_text("\n".join(patterns) + "\n", newline="", encoding="utf-8")
    done = subprocess.run(
        ["git", "-c", "core.ignoreCase=false", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"],
        cwd=repository,
        input="".join(f"./{path}\0" for path in paths).encode(),
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        check=False,
    )  # fmt: skip
    fields = done.stdout.decode().split("\0")[:-1]
    found = {fields[n + 3]: fields[n + 2] for n in range(0, len(fields), 4)}
    return [bool(p := found[f"./{path}"]) and not p.startswith("!") for path in paths]


def ignored(patterns: Patterns, path: str) -> bool:
    """As the walk has it: what lies in an ignored folder is never looked at."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        if patterns.verdict("/".join(parts[:depth]), True):
            return True
    return bool(patterns.verdict(path, False))


@settings(
    max_examples=int(os.environ.get("HPUSHIM_HOSTILE_EXAMPLES", "150")),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(patterns=_patterns, paths=_paths)
def test_any_patterns_mean_what_git_says(
    repository: Path, patterns: list[str], paths: list[str]
) -> None:
    """generated patterns and paths, judged by git"""
    # Where wildcards begin with two stars behind text, git takes them for folders against its own book;
    # and it takes a question mark for a byte, not for a character.
    for pattern in patterns:
        before, stars, _ = pattern.removeprefix("!").removeprefix("/").partition("**")
        if (stars and before[-1:] not in ("", "/")) or "\\/" in pattern:
            return
        if any(sign in pattern for sign in "?[") and "é" in "".join((*paths, *patterns)):
            return
    mine = Patterns(patterns)
    assert [ignored(mine, path) for path in paths] == by_git(repository, patterns, paths)
