"""The declaration of each argument and option, held by the kept table beside this file: ``python tests/cli/test_click_options.py`` writes it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hpushim.cli import cli

KEPT = Path(__file__).with_name("options.txt")
#: What click does with a parameter, and what it asks of a value; what it shows of them is in docs/commands.md.
_OF_PARAMETERS = {"nargs": 1, "required": False, "envvar": None, "is_eager": False, "expose_value": True, "is_flag": False, "multiple": False, "count": False, "prompt": None, "hidden": False, "show_default": None}  # fmt: skip
_OF_TYPES: dict[str, Any] = {
    "choices": (), "case_sensitive": True, "min": None, "max": None, "min_open": False, "max_open": False, "clamp": False,
    "exists": False, "file_okay": True, "dir_okay": True, "writable": False, "readable": True, "resolve_path": False, "allow_dash": False,
}  # fmt: skip


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), inner)
            assert found is not None
            yield from _commands(found, f"{name} {inner}".strip())


def _told(one: Any, usual: dict[str, Any]) -> str:
    there = {key: getattr(one, key, value) for key, value in usual.items()}
    there |= {"choices": tuple(there["choices"])} if "choices" in there else {}
    return "".join(f" {key}={there[key]!r}" for key, value in usual.items() if there[key] != value)


def _default(one: click.Parameter) -> Any:
    """What a command gets where nothing is given; releases of click say in different ways that it is nothing."""
    found = one.get_default(click.Context(click.Command("x")))
    return found if isinstance(found, str | int | float | Path) else None


def table() -> str:
    lines: dict[str, list[str]] = {}
    for name, command in _commands(cli, ""):
        ways = [key for key in ("no_args_is_help", "hidden", "allow_extra_args", "ignore_unknown_options") if getattr(command, key)]  # fmt: skip
        if ways or command.context_settings:
            lines.setdefault(f"{command.context_settings} {' '.join(ways)}".strip(), []).append(name or "hpushim")  # fmt: skip
        for one in command.params:
            words = "/".join([*one.opts, *one.secondary_opts])
            default, flag = _default(one), getattr(one, "is_flag", False)
            more = f" default={str(default) if isinstance(default, Path) else default!r}" if default or (default == 0 and not flag) else ""  # fmt: skip
            more += f" gives {one.flag_value}" if flag and not isinstance(one.type, type(click.BOOL)) else ""  # type: ignore[attr-defined]  # fmt: skip
            kind = type(one.type).__name__.removesuffix("ParamType").removesuffix("ParameterType")
            lines.setdefault(f"{words}: {kind}{_told(one.type, _OF_TYPES)}{_told(one, _OF_PARAMETERS)}{more}", []).append(name or "hpushim")  # fmt: skip
    return "".join(f"{line}\n    {', '.join(names)}\n" for line, names in sorted(lines.items()))


def test_each_parameter_is_as_it_is_kept() -> None:
    assert table() == KEPT.read_text(encoding="utf-8")


def test_a_parameter_gives_what_its_command_says_that_it_takes() -> None:
    """By the annotations, to which the types of the command's body are held: ``bool`` is a flag, ``X | None`` may be missing."""
    asked = 0
    for name, command in _commands(cli, ""):
        said = inspect.get_annotations(inspect.unwrap(command.callback))  # type: ignore[arg-type]
        for one in command.params:
            hint = str(said.get(str(one.name), "Any"))
            if hint == "Any":
                continue
            asked += 1
            default = _default(one)
            place = f"{name} {one.name}"
            assert (hint == "bool") == (getattr(one, "is_flag", False) and isinstance(one.type, type(click.BOOL)) and "None" not in hint), place  # fmt: skip
            if hint.startswith("tuple"):
                assert one.multiple or one.nargs == -1 or "None" in hint, place
            elif hint.endswith("| None"):
                assert not one.required and not default, place
            elif hint != "bool":
                assert one.required or default is not None, place
    assert asked > 80


if __name__ == "__main__":
    KEPT.write_text(table(), encoding="utf-8")
