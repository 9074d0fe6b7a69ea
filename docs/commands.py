"""Writes docs/commands.md from the commands themselves: ``python docs/commands.py``."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from hpushim.cli import COMMANDS

PAGE = Path(__file__).resolve().parent / "commands.md"
_HEAD = """\
# Commands

Written by `python docs/commands.py` from `hpushim COMMAND --help`; do not edit.

## Exit codes

| code | meaning |
|---|---|
| 0 | nothing to do |
| 1 | findings, or changes pending |
| 2 | usage error; nothing was done |
| 3 | a file could not be read or written, or an edit was rejected |
| 4 | internal error |
| 5 | `prove --fail-on refused`: a Gaudi rejects something that ran |
| 130 | stopped with Ctrl-C |

`run` ends with the script's own exit code. Environment variables are in [Settings](settings.md).

## libcst

`python -m libcst.tool codemod -x hpushim.codemods.command.CudaToHpu --no-format PATH` writes into Python files what `hpushim migrate` writes, with
the same options. `-x` names the command by its module. Files of other kinds, the journal and `--undo` belong to `migrate`.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(part for name in COMMANDS for part in _command(name))


def _command(name: str) -> Iterator[str]:
    command = importlib.import_module(f"hpushim.cli.{name.replace('-', '_')}").command
    yield from _described(command, f"hpushim {name}", 2)


def _described(command: click.Command, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    text = "\n\n".join(_joined(part) for part in re.split(r"\n\s*\n", (command.help or "").strip()))
    yield f"\n{'#' * level} {name}\n\n    {usage}\n\n{text}\n"
    options = [
        param for param in command.params if isinstance(param, click.Option) and not param.hidden
    ]
    if options:
        yield "\n| option | |\n|---|---|\n"
        for option in options:
            yield f"| {_spelled(option, context)} | {_joined(option.help or '')} |\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _described(command.commands[inner], f"{name} {inner}", level + 1)


def _spelled(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{one}`" for one in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {_value(option, context)}"


def _value(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.Choice):
        return " \\| ".join(map(str, option.type.choices))
    return option.metavar or option.type.name.upper().split(" ")[0]


def _joined(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {len(page().splitlines())} lines", file=sys.stderr)
