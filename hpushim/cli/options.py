"""Options that several commands share, and the project's own settings from ``pyproject.toml``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import click
import msgspec

from hpushim.errors import HpushimError
from hpushim.model import Generation, Mode, Style, Target

if TYPE_CHECKING:
    from hpushim.matrix import Matrix

F = TypeVar("F", bound=Callable[..., Any])
#: From which severity on `check` fails; `unknown` counts as a warning.
Threshold = Literal["error", "warning", "note"]
#: The file of settings for projects without a pyproject.toml: the table alone.
NAME = "hpushim.toml"
_MAX_BYTES = 16 << 20  # of a pyproject.toml


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ``[tool.hpushim]`` table, or a whole ``hpushim.toml``."""

    target: Generation | None = None
    stack: str | None = None
    mode: Mode | None = None
    style: Style | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    matrix: tuple[str, ...] = ()
    unsafe: bool = False
    fail_on: Threshold | None = msgspec.field(name="fail-on", default=None)
    baseline: str | None = None


def settings(start: Path) -> tuple[Settings, Path | None]:
    """The settings that govern ``start`` and the file they are in: the nearest ``hpushim.toml`` or ``pyproject.toml``
    upwards, the former where both are.

    Raises HpushimError for a file that cannot be used.
    """
    here = Path(os.path.realpath(start))
    for folder in (here, *here.parents):
        for file in (folder / NAME, folder / "pyproject.toml"):
            if os.path.isfile(file):  # noqa: PTH113
                table = _table(file)
                return (Settings(), None) if table is None else (_checked(file, table), file)
    return Settings(), None


def _table(file: Path) -> object:
    """``[tool.hpushim]`` as it is there; None where there is none."""
    import tomli

    from hpushim import safe_files

    try:
        data = tomli.loads(safe_files.read(file, _MAX_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise HpushimError(f"{file}: cannot be read: {error.strerror}; fix the file") from None
    except (ValueError, RecursionError) as error:
        raise HpushimError(f"{file}: not valid TOML ({error}); fix the file") from None
    if file.name == NAME:
        return data
    tool = data.get("tool", {})
    return tool.get("hpushim") if isinstance(tool, dict) else None


def _checked(file: Path, table: object) -> Settings:
    try:
        return msgspec.convert(table, Settings)
    except (msgspec.ValidationError, RecursionError) as error:
        raise HpushimError(
            f"{file}: {'' if file.name == NAME else '[tool.hpushim]: '}{error}; known settings are {', '.join(Settings.__struct_encode_fields__)}"
        ) from None


def own_rows(found: Settings, file: Path | None, named: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files with rows of the project's own, then those that the command line names.

    Raises HpushimError where a project names a file outside of itself.
    """
    folder = file.parent if file else Path()
    return (*(_inside(folder, name, file, "matrix") for name in found.matrix), *named)


def _inside(folder: Path, name: str, file: Path | None, setting: str) -> Path:
    """A file that the settings name; HpushimError where it lies outside of the project."""
    path = folder / name
    real = Path("" if "\0" in name else os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise HpushimError(
            f"{file}: [tool.hpushim] {setting} names {name!r}, which lies outside of the project; "
            f"expected a file in {folder}; to use it anyway, pass it with --{setting}"
        )
    return path


def paths_argument(function: F) -> F:
    """``PATH…``, the current folder when none is given, ``-`` for standard input; ``--stdin-filename``."""
    name = click.option(
        "--stdin-filename",
        metavar="NAME",
        help="With PATH -: the file name to assume for standard input.",
    )
    kind = click.Path(exists=True, allow_dash=True, path_type=Path)
    return click.argument("paths", nargs=-1, type=kind, metavar="[PATH]...")(name(function))


def matrix_option(function: F) -> F:
    """``--matrix``, wherever the file lies."""
    return click.option(
        "--matrix",
        "matrix_files",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Add rows to the compatibility matrix; they override shipped rows and those of [tool.hpushim].",
    )(function)


def run_mode_option(function: F) -> F:
    """``--mode`` of what runs a program."""
    return click.option(
        "--mode", type=click.Choice(["eager", "compile", "lazy"]), help="Execution mode."
    )(function)


def target_options(function: F) -> F:
    """``--target``, ``--stack``, ``--mode``, ``--style``, ``--matrix``."""
    for option in (
        matrix_option,
        click.option(
            "--style",
            type=click.Choice(get_args(Style)),
            help="native: hpu code; dual: code that still runs on CUDA and CPU; agnostic: code that names no vendor.",
        ),
        click.option(
            "--mode",
            type=click.Choice(get_args(Mode)),
            help="Execution mode to target (default: portable, which adds the mark_step calls that lazy mode needs).",
        ),
        click.option("--stack", metavar="RELEASE", help="Gaudi software release, such as 1.24."),
        click.option("--target", type=click.Choice(get_args(Generation)), help="Gaudi generation."),
    ):
        function = option(function)
    return function


def rule_options(function: F) -> F:
    """``--select``, ``--ignore``, ``--unsafe``, ``--exclude``, ``--jobs``, ``--quiet``."""
    for option in (
        click.option(
            "--quiet",
            "-q",
            is_flag=True,
            expose_value=False,
            callback=_be_quiet,
            help="Print only results and errors.",
        ),
        click.option(
            "--jobs",
            "-j",
            type=click.IntRange(1),
            help="Maximum number of processes (default: as needed).",
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
            help="Also count or apply unsafe rewrites, which may be wrong.",
        ),
        click.option(
            "--ignore", multiple=True, metavar="CODES", help="Leave out these codes or prefixes."
        ),
        click.option(
            "--select",
            multiple=True,
            metavar="CODES",
            help="Only these codes or prefixes, such as HPU1,HPU302.",
        ),
    ):
        function = option(function)
    return function


def output_options(function: F) -> F:
    """``--format``, ``--output``."""
    from hpushim.report import FORMATS, PURPOSES

    for option in (
        click.option(
            "--output",
            "-o",
            type=click.Path(readable=False, path_type=Path),
            help="Write the report to a file.",
        ),
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            default=FORMATS[0],
            help="; ".join(f"{name}: {what}" for name, what in PURPOSES.items()),
        ),
    ):
        function = option(function)
    return function


def cache_option(function: F) -> F:
    """``--cache``, ``--no-cache``."""
    return click.option(
        "--cache/--no-cache",
        default=True,
        envvar="HPUSHIM_CACHE",
        help="Reuse the findings of unchanged files, kept in the user's cache folder (default).",
    )(function)


def _be_quiet(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    from hpushim.cli import output

    output.quiet = value


def codes(values: tuple[str, ...]) -> tuple[str, ...]:
    """``("HPU1,HPU302", "401")`` → ``("HPU1", "HPU302", "HPU401")``."""
    parts = (part.strip().upper() for value in values for part in value.split(","))
    return tuple(part if part.startswith("HPU") else f"HPU{part}" for part in parts if part)


class Request(msgspec.Struct, frozen=True):
    """The options of an analysing command, with the project's settings filled in."""

    paths: tuple[Path, ...]
    target: Target
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    exclude: tuple[str, ...]
    unsafe: bool
    extra_rows: tuple[Path, ...]
    fail_on: Threshold = "warning"
    baseline: Path | None = None
    #: What came on standard input, by the real path that it is given.
    given: dict[Path, bytes] = {}

    def matrix(self) -> Matrix:
        """The shipped matrix with the project's own rows over it."""
        from hpushim.matrix import load

        return load(extra=self.extra_rows)

    @property
    def root(self) -> Path:
        """The folder of the project that is assessed."""
        from hpushim.engine.files.discover import project_root

        return project_root(self.paths)


def read_request(paths: tuple[Path, ...], options: dict[str, Any]) -> Request:
    """Merges the command line over ``[tool.hpushim]``; pops the shared options out of ``options``."""
    where, given = _standard_input(paths or (Path(),), options.pop("stdin_filename", None))
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
        extra_rows=own_rows(found, file, options.pop("matrix_files")),
        fail_on=options.pop("fail_on", None) or found.fail_on or "warning",
        baseline=options.pop("baseline", None) or _baseline(found, file),
        given=given,
    )


def _baseline(found: Settings, file: Path | None) -> Path | None:
    if found.baseline is None or file is None:
        return None
    return _inside(file.parent, found.baseline, file, "baseline")


def _standard_input(
    paths: tuple[Path, ...], name: str | None
) -> tuple[tuple[Path, ...], dict[Path, bytes]]:
    """The paths, and what came on standard input where one of them is ``-``, under the name that represents it."""
    if not any(os.fspath(path) == "-" for path in paths):
        if name:
            raise click.UsageError("--stdin-filename needs PATH -, which is standard input")
        return paths, {}
    if len(paths) > 1:
        raise click.UsageError(
            "- (standard input) must be the only PATH; leave it out to name files"
        )
    import sys

    from hpushim import safe_files

    data = sys.stdin.buffer.read(safe_files.LIMIT + 1)
    if len(data) > safe_files.LIMIT:
        raise HpushimError(
            f"standard input is larger than {safe_files.LIMIT >> 20} MiB; name the file"
        )
    path = Path(os.path.realpath(name or "stdin.py"))
    return (path,), {path: data}


def _known_stack(stack: str) -> str:
    from hpushim.matrix import load

    known = load().releases
    if stack not in known and not any(name.startswith(stack + ".") for name in known):
        raise HpushimError(
            f"--stack {stack}: no such release in the matrix; one of {', '.join(known)}"
        )
    return stack
