"""``hpushim report``: the assessment of a project; exit code 0 whatever it finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hpushim.cli.options import (
    cache_option,
    output_options,
    paths_argument,
    read_request,
    rule_options,
    target_options,
)

if TYPE_CHECKING:
    from hpushim.cli.options import Request
    from hpushim.ledgers.model import Summary
    from hpushim.matrix import Matrix
    from hpushim.model import Dependency, Report


@click.command("report")
@paths_argument
@target_options
@rule_options
@output_options
@cache_option
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the findings with a run, from the file of `run --ledger`; printed after the report.",
)
@click.option(
    "--env",
    type=click.Path(path_type=Path, exists=True),
    metavar="PYTHON",
    help="Assess dependencies from the files of this environment (its folder or Python), which is not run.",
)
@click.option(
    "--wheels",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Assess dependencies from the wheels in this folder.",
)
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    jobs: int | None,
    cache: bool,
    ledger: Path | None,
    env: Path | None,
    wheels: Path | None,
    **options: Any,
) -> int:
    """Assess PATH (default: the current folder): what runs on Gaudi, what behaves differently, what stops.

    Dependencies are assessed by the compatibility matrix, else from their own files where they are installed: in the project's .venv,
    beside hpushim, or where --env and --wheels say. Nothing of them is imported.

    Exit code 0; 3 when a file could not be read, because the verdict is then incomplete.
    """
    from hpushim.cli.output import exit_code, progress, ready, show
    from hpushim.engine.project import analyse
    from hpushim.report import PROPOSING

    request = read_request(paths, options)
    summary = _summary(ledger, request.matrix(), format_, output) if ledger else None
    ready(output, request.root)
    with progress("reading") as update:
        report = analyse(
            request.paths,
            request.target,
            matrix=request.matrix(),
            given=request.given,
            select=request.select,
            ignore=request.ignore,
            exclude=request.exclude,
            jobs=jobs,
            progress=update,
            propose=format_ in PROPOSING,
            cache=cache,
        )
    report = msgspec.structs.replace(
        report, dependencies=_dependencies(request, env, wheels, report)
    )
    shown = show(report, format_, output, request.root)
    if summary is not None:
        from hpushim.cli.output import say
        from hpushim.ledgers.join import join, text_of

        say(f"\n{text_of(join(report, summary))}", nl=False)
    return 3 if exit_code(report) == 3 or not shown else 0


def _dependencies(
    request: Request, env: Path | None, wheels: Path | None, report: Report
) -> tuple[Dependency, ...]:
    from hpushim.dependencies import Places
    from hpushim.dependencies.project import of_project

    if request.given:
        return ()
    places = Places(request.root, env, wheels)
    return of_project(request.paths, request.exclude, places, request.matrix(), request.target, report.around, report.reached)  # fmt: skip


def _summary(ledger: Path, matrix: Matrix, format_: str, output: Path | None) -> Summary:
    """What the run did, read before the work on the report begins."""
    if format_ not in ("text", "concise", "markdown") and output is None:
        raise click.UsageError(
            f"--ledger prints text after the report, which is not valid {format_}: give --output FILE for the report, or --format text"
        )
    from hpushim.ledgers.reading import read
    from hpushim.ledgers.summary import summarize

    return summarize(read(ledger), matrix)
