"""``hpushim init``: settings for a project, and git's configuration for following upstream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import NAME, Settings, target_options
from hpushim.cli.output import say

_LIMIT = 16 << 20


@click.command("init")
@click.argument(
    "folder",
    default=".",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="[FOLDER]",
)
@target_options
@click.option(
    "--git",
    is_flag=True,
    help="Set up `hpushim merge-driver`, which merges upstream changes into the port.",
)
@click.option("--undo", is_flag=True, help="With --git: remove that setup.")
def command(folder: Path, git: bool, undo: bool, **options: Any) -> int:
    """Write settings that fit the project in FOLDER (default: the current folder); overwrite nothing.

    They go into the table [tool.hpushim] of pyproject.toml, or into hpushim.toml where there is no pyproject.toml.
    """
    from hpushim.following import git_setup

    if undo and not git:
        raise click.UsageError("--undo needs --git; to remove settings, edit the file")
    if undo:
        done = list(git_setup.take_back(folder))
        say("\n".join(done) or "nothing to remove")
        return 0
    _settings(folder, options)
    if git:
        for line in git_setup.set_up(folder):
            say(line)
        say(
            "after a merge, run `hpushim migrate .` to rewrite new code; `hpushim init --git --undo` removes the driver"
        )
    return 0


def _settings(folder: Path, options: dict[str, Any]) -> None:
    from hpushim import safe_files
    from hpushim.cli.options import settings
    from hpushim.errors import HpushimError

    there, where = settings(folder)
    own = where is not None and where.parent == folder.resolve()
    if own and there != Settings():
        say(f"{where} already has settings; hpushim keeps them")
        return
    project = folder / "pyproject.toml"
    file, table = (project, "[tool.hpushim]\n") if project.exists() else (folder / NAME, "")
    text, why = _chosen(folder, options)
    try:
        before = safe_files.read(file, _LIMIT).decode() if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise HpushimError(f"{file}: hpushim cannot add settings: {error}; fix the file") from None
    newline = "\r\n" if "\r\n" in before else "\n"
    gap = "" if not before else newline if before.endswith("\n") else newline * 2
    after = before + gap + (table + text).replace("\n", newline)
    if not _adds_only(before, after):
        raise HpushimError(
            f"{file}: hpushim cannot append the settings; add them yourself:\n{table}{text}"
        )
    safe_files.write(file, after.encode(), project=folder)
    say(f"wrote to {file}:\n\n{table}{text}")
    for line in why:
        say(line)


def _chosen(folder: Path, options: dict[str, Any]) -> tuple[str, list[str]]:
    """The settings as text, and a line for each that was found rather than requested."""
    from hpushim.cli.options import read_request
    from hpushim.engine.project import analyse
    from hpushim.model import Target

    why: list[str] = []
    given = {name: options.get(name) for name in ("target", "stack", "mode", "style")}
    stack = given["stack"] or _installed()
    if stack and not given["stack"]:
        why.append(f"stack: {stack} is installed here")
    rest = {"select": (), "ignore": (), "exclude": (), "unsafe": None}
    request = read_request((folder,), {**options, **rest, "stack": stack})
    report = analyse((folder,), request.target)
    words = {f.name for file in report.files for f in file.findings}
    touched = [file for file in report.files if file.findings]
    base = Target()
    lines = [
        f'target = "{request.target.gaudi}"',
        f'stack = "{request.target.stack}"',
        f'mode = "{request.target.mode}"',
        f'style = "{request.target.style}"',
    ]
    if not given["mode"] and request.target.mode == base.mode:
        lines[2] += "  # or eager, compile, lazy: the one mode that you run in"
    if not given["style"] and request.target.style == base.style:
        lines[3] += (
            "  # or dual: code that still runs on CUDA and CPU; agnostic: code that names no vendor"
        )
    lines.append("# exclude = []  # more than .gitignore leaves out")
    why.append(
        f"{len(touched)} of {len(report.files)} files have findings; "
        f"`hpushim report` lists it ({len(words)} kinds), `hpushim migrate --diff` shows the rewrites"
    )
    return "\n".join(lines) + "\n", why


def _installed() -> str | None:
    """The release of the Gaudi software that is installed here, if it is one that the matrix knows."""
    from importlib.metadata import PackageNotFoundError, version

    from hpushim.matrix import load

    try:
        release = load().release(".".join(version("habana-torch-plugin").split(".")[:2]))
    except PackageNotFoundError:
        return None
    return release.stack if release else None


def _adds_only(before: str, after: str) -> bool:
    """Is the new text TOML that says what the old one said, and the settings?"""
    import tomli

    try:
        old, new = tomli.loads(before), tomli.loads(after)
    except ValueError:
        return False
    if not before:
        return bool(new)
    tools = new.get("tool", {})
    tools.pop("hpushim", None)
    if not tools and "tool" not in old:
        new.pop("tool", None)
    return new == old
