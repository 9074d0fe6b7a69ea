"""The documents' examples run: each page's ``console`` blocks, in order, in a copy of the folder that the page names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    path.name: path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "```console\n" in path.read_text(encoding="utf-8")
}
_BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```$")
_FOLDER = re.compile(r"<!-- example: (\S+) -->")


def steps(text: str) -> list[tuple[str, str]]:
    """The commands of a page with what each prints."""
    found = []
    for block in _BLOCK.findall(text):
        assert block.startswith("$ "), block
        for part in re.split(r"(?m)^\$ ", block)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def shape(printed: str) -> re.Pattern[str]:
    """What a command's output has to look like: a line ``…`` is any lines, ``…`` in a line any text."""
    lines = [
        r"(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in printed.splitlines()
    ]
    return re.compile("".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_commands_print_what_the_page_shows(name: str, tmp_path: Path) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    (example,) = _FOLDER.findall(text)
    folder = tmp_path / "project"
    shutil.copytree(ROOT / example, folder)
    own = {key: value for key, value in os.environ.items() if not key.startswith("HPUSHIM")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**own, "PATH": path, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    for command, printed in steps(text):
        quoted = re.sub(r"\(.*\)", lambda found: f"'{found[0]}'", command)
        done = subprocess.run(["bash", "-c", quoted], cwd=folder, env=env, capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode in (0, 1), f"{command}: {done.returncode}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        wanted = shape(printed).fullmatch(done.stdout)
        assert wanted is not None, f"$ {command}\n{done.stdout[:3000]}\n{done.stderr[-1000:]}"


@pytest.mark.slow
def test_the_commands_of_the_page_on_upstream_run(tmp_path: Path) -> None:
    """In a migrated clone of a project that goes on."""
    text = (ROOT / "docs/upstream.md").read_text(encoding="utf-8")
    commands = re.findall(r"(?m)^ {4}((?:git|hpushim) .*?)(?:  +#.*)?$", text)
    assert len(commands) == 6, commands
    own = {key: value for key, value in os.environ.items() if not key.startswith(("HPUSHIM", "GIT_"))}  # fmt: skip
    env = {
        **own,
        **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_MERGE_AUTOEDIT": "no",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip

    def run(command: str, folder: Path) -> None:
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False)  # fmt: skip
        nothing = command.startswith("git commit -am") and "nothing to commit" in done.stdout
        assert done.returncode == 0 or nothing, f"{command}\n{done.stdout}{done.stderr}"

    upstream, port = tmp_path / "upstream", tmp_path / "port"
    shutil.copytree(ROOT / "docs/example", upstream)
    run("git init -qb main && git add . && git commit -qm 1", upstream)
    run(f"git clone -q -o upstream {upstream} {port}", tmp_path)
    run("hpushim init && hpushim migrate . && git add . && git commit -qm port", port)
    script = upstream / "train.py"
    script.write_text(script.read_text(encoding="utf-8") + "torch.cuda.synchronize()\n", encoding="utf-8")  # fmt: skip
    run("git commit -qam 2", upstream)
    run("git fetch -q upstream", port)
    for command in commands:
        run(command, port)
    merged = (port / "train.py").read_text(encoding="utf-8")
    assert "torch.hpu.synchronize()" in merged and "torch.cuda" not in merged


def test_the_pages_have_examples() -> None:
    assert len(PAGES) >= 8


def test_an_example_that_prints_something_else_is_seen() -> None:
    assert shape("a …\n…\nb\n").fullmatch("a 1\nx\ny\nb\n")
    assert not shape("a …\nb\n").fullmatch("a 1\nx\nb\n")
