"""Options that several commands share, and the project's own settings from ``pyproject.toml``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click
import msgspec

from hpushim.errors import HpushimError
from hpushim.model import Generation, Mode, Style, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

F = TypeVar("F", bound=Callable[..., Any])


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ``[tool.hpushim]`` table."""

    target: Generation | None = None
    stack: str | None = None
    mode: Mode | None = None
    style: Style | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    matrix: tuple[str, ...] = ()
    unsafe: bool = False


def settings(start: Path) -> tuple[Settings, Path | None]:
    """The settings that govern ``start`` and the file they stand in: the nearest ``pyproject.toml`` upwards."""
    here = start.resolve()
    for folder in (here if here.is_dir() else here.parent, *here.parents):
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        import tomli

        try:
            data = tomli.loads(file.read_text(encoding="utf-8"))
        except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
            raise HpushimError(f"{file}: not valid TOML ({error}); mend the file") from None
        table = data.get("tool", {}).get("hpushim")
        if table is None:
            return Settings(), None
        try:
            return msgspec.convert(table, Settings), file
        except msgspec.ValidationError as error:
            raise HpushimError(
                f"{file}: [tool.hpushim]: {error}; known settings are {', '.join(Settings.__struct_fields__)}"
            ) from None
    return Settings(), None


def paths_argument(function: F) -> F:
    """``PATH…``, the current folder when none is given."""
    return click.argument(
        "paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PATH]..."
    )(function)


def target_options(function: F) -> F:
    """``--target``, ``--stack``, ``--mode``, ``--style``."""
    for option in (
        click.option(
            "--style",
            type=click.Choice(get_args(Style)),
            help="native: hpu code; dual: code that still runs on CUDA and CPU.",
        ),
        click.option(
            "--mode",
            type=click.Choice(get_args(Mode)),
            help="Execution mode to write for (default portable: mark_step where lazy mode needs it).",
        ),
        click.option("--stack", metavar="RELEASE", help="Gaudi software release, such as 1.24."),
        click.option("--target", type=click.Choice(get_args(Generation)), help="Gaudi generation."),
    ):
        function = option(function)
    return function


def rule_options(function: F) -> F:
    """``--select``, ``--ignore``, ``--unsafe``, ``--exclude``, ``--jobs``."""
    for option in (
        click.option(
            "--jobs", "-j", type=click.IntRange(1), help="Processes at most (default: as needed)."
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="PATTERN",
            help="Leave out paths (gitignore pattern).",
        ),
        click.option(
            "--unsafe/--safe",
            "unsafe",
            default=None,
            help="Also count or apply rewrites that are only probably right.",
        ),
        click.option(
            "--ignore", multiple=True, metavar="CODES", help="Codes or prefixes to leave out."
        ),
        click.option(
            "--select",
            multiple=True,
            metavar="CODES",
            help="Codes or prefixes to look for (HPU1,HPU302).",
        ),
    ):
        function = option(function)
    return function


def output_options(function: F) -> F:
    """``--format``, ``--output``."""
    from hpushim.report import FORMATS

    for option in (
        click.option(
            "--output",
            "-o",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the report to a file.",
        ),
        click.option("--format", "format_", type=click.Choice(FORMATS), default=FORMATS[0]),
    ):
        function = option(function)
    return function


def codes(values: tuple[str, ...]) -> tuple[str, ...]:
    """``("HPU1,HPU302", "401")`` → ``("HPU1", "HPU302", "HPU401")``."""
    parts = (part.strip().upper() for value in values for part in value.split(","))
    return tuple(part if part.startswith("HPU") else f"HPU{part}" for part in parts if part)


class Request(msgspec.Struct, frozen=True):
    """What an analysing command was asked, with the project's settings filled in."""

    paths: tuple[Path, ...]
    target: Target
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    unsafe: bool
    extra_rows: tuple[Path, ...]

    def matrix(self) -> Matrix:
        """The shipped matrix with the project's own rows over it."""
        from hpushim.matrix import load

        return load(extra=self.extra_rows)

    @property
    def root(self) -> Path:
        first = self.paths[0]
        return first if first.is_dir() else first.parent


def request(paths: tuple[Path, ...], options: dict[str, Any]) -> Request:
    """Merges the command line over ``[tool.hpushim]``; pops the shared options out of ``options``."""
    where = paths or (Path(),)
    found, file = settings(where[0])
    base = Target()
    stack = options.pop("stack") or found.stack or base.stack
    unsafe = options.pop("unsafe")
    return Request(
        paths=where,
        target=Target(
            gaudi=options.pop("target") or found.target or base.gaudi,
            stack=_known_stack(stack),
            mode=options.pop("mode") or found.mode or base.mode,
            style=options.pop("style") or found.style or base.style,
        ),
        select=codes(options.pop("select")) or codes(found.select),
        ignore=(*codes(options.pop("ignore")), *codes(found.ignore)),
        exclude=(*options.pop("exclude"), *found.exclude),
        unsafe=found.unsafe if unsafe is None else unsafe,
        extra_rows=tuple((file.parent if file else Path()) / name for name in found.matrix),
    )


def _known_stack(stack: str) -> str:
    from hpushim.matrix import load

    known = load().releases
    if stack not in known and not any(name.startswith(stack + ".") for name in known):
        raise HpushimError(
            f"--stack {stack}: no such release in the matrix; one of {', '.join(known)}"
        )
    return stack
