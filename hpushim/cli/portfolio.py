"""``hpushim portfolio``: many repositories assessed, one page; exit code 3 when one of them has no report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpushim.cli.options import read_request, rule_options, target_options
from hpushim.errors import HpushimError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpushim.portfolio.assessing import Job
    from hpushim.portfolio.folder import Folder
    from hpushim.portfolio.rows import Portfolio


@click.command("portfolio")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[REPOSITORY]...")
@click.option(
    "--from",
    "listed",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="LIST",
    help="Also the repositories that this file lists, one path per line.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="The arguments are files of `hpushim report --format json`, made elsewhere; nothing is assessed.",
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    help="processes of this machine, or the Ray cluster that RAY_ADDRESS names.",
)
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Assess dependencies from the wheels in this folder.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("portfolio"),
    metavar="FOLDER",
    help="Folder for the page, the tables and the reports (default: portfolio).",
)
@target_options
@rule_options
def command(
    paths: tuple[Path, ...],
    listed: Path | None,
    merge: bool,
    engine: str,
    wheels: Path | None,
    output: Path,
    jobs: int | None,
    **options: Any,
) -> int:
    """Assess many repositories and make one page: which can move to Gaudi, what it takes, and what blocks most of them.

    The folder gets index.html, portfolio.csv and portfolio.json, and a page and a JSON report for each repository. The same command
    continues a run that was stopped, and assesses only repositories that have changed since.

    Exit code 0; 3 when a repository could not be assessed, which is then a row that says why.
    """
    from hpushim.cli.output import notice
    from hpushim.portfolio.folder import Folder

    places = [*paths, *(_listed(listed) if listed else ())]
    if not places:
        raise click.UsageError("no repository; name some, or a file that lists them with --from")
    folder = Folder(output)
    made = _merged(places, options) if merge else _assessed(places, folder, engine, wheels, jobs, options)  # fmt: skip
    folder.finish(made)
    notice(f"portfolio written to {output / 'index.html'}")
    return 3 if made.verdicts.get("failed") else 0


def _listed(path: Path) -> list[Path]:
    """The paths in a list, relative to where it lies; empty lines and comments with ``#`` are left out."""
    from hpushim import safe_files

    lines = safe_files.read(path).decode("utf-8", "surrogateescape").splitlines()
    named = (line.strip() for line in lines)
    return [path.parent / name for name in named if name and not name.startswith("#")]


def _assessed(
    places: Sequence[Path],
    folder: Folder,
    engine: str,
    wheels: Path | None,
    most: int | None,
    options: dict[str, Any],
) -> Portfolio:
    from hpushim.cli.output import progress
    from hpushim.portfolio import engines, rows

    named = list(dict.fromkeys(path.resolve() for path in places))
    jobs, failed = [], []
    for name, path in zip(rows.names(named), named, strict=True):
        try:
            jobs.append(_job(name, path, folder, wheels, options))
        except HpushimError as error:
            failed.append(rows.without(name, str(error)))
    rows.one_target(job.target for job in jobs)  # before hours of work, not after
    with folder.locked(), progress("assessing", "repository", "repositories") as update:
        run = engines.ray if engine == "ray" else engines.processes
        for number, name in enumerate(run(jobs, most, folder.keep)):
            if update is not None:
                update(number + 1, len(jobs), name)
    target = read_request((Path(),), dict(options)).target
    return folder.portfolio([job.name for job in jobs], failed, target)


def _job(
    name: str, path: Path, folder: Folder, wheels: Path | None, options: dict[str, Any]
) -> Job:
    """A repository with its own settings under what the command line says."""
    from hpushim.portfolio.assessing import Job

    if not path.is_dir():
        raise HpushimError(f"{path}: no such folder")
    request = read_request((path,), dict(options))
    rows = tuple(each.resolve() for each in request.extra_rows)
    wheels = wheels.resolve() if wheels else None
    return Job(name, path, request.target, request.select, request.ignore, request.exclude, rows, wheels, folder.key(name))  # fmt: skip


def _merged(places: Sequence[Path], options: dict[str, Any]) -> Portfolio:
    """The portfolio of reports that were made elsewhere, named after their files."""
    import hpushim
    from hpushim import safe_files
    from hpushim.portfolio import rows

    reads, failed = [], []
    for name, path in zip(rows.names([path.resolve().with_suffix("") for path in places]), places, strict=True):  # fmt: skip
        page = path.with_suffix(".html")
        try:
            link = page.resolve().as_uri() if page.is_file() else ""
            reads.append(rows.read(name, safe_files.read(path), link))
        except OSError as error:
            failed.append(rows.without(name, f"{path}: {error.strerror}"))
        except HpushimError as error:
            failed.append(rows.without(name, f"{path}: {error}"))
    target = read_request((Path(),), dict(options)).target
    return rows.gather(reads, failed, target, f"hpushim {hpushim.__version__}")
