"""``hpushim report``: the judgement of a project; exit code 0 whatever it finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpushim.cli.options import (
    output_options,
    paths_argument,
    request,
    rule_options,
    target_options,
)

if TYPE_CHECKING:
    from hpushim.ledgers.model import Told
    from hpushim.matrix import Matrix


@click.command("report")
@paths_argument
@target_options
@rule_options
@output_options
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the findings with a run, from the file of `run --ledger`; printed after the report.",
)
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    jobs: int | None,
    ledger: Path | None,
    **options: Any,
) -> int:
    """Assess PATH (default: the current folder): what runs on Gaudi, what behaves differently, what stops.

    Exit code 0; 3 when a file could not be read, because the verdict is then incomplete.
    """
    from hpushim.cli.output import exit_code, progress, ready, show
    from hpushim.engine.project import analyse
    from hpushim.report import PROPOSING

    asked = request(paths, options)
    told = _told(ledger, asked.matrix(), format_, output) if ledger else None
    ready(output, asked.root)
    with progress("reading") as update:
        report = analyse(
            asked.paths,
            asked.target,
            matrix=asked.matrix(),
            given=asked.given,
            select=asked.select,
            ignore=asked.ignore,
            exclude=asked.exclude,
            jobs=jobs,
            progress=update,
            propose=format_ in PROPOSING,
        )
    shown = show(report, format_, output, asked.root)
    if told is not None:
        from hpushim.cli.output import say
        from hpushim.ledgers.join import join, text_of

        say(f"\n{text_of(join(report, told))}", nl=False)
    return 3 if exit_code(report) == 3 or not shown else 0


def _told(ledger: Path, matrix: Matrix, format_: str, output: Path | None) -> Told:
    """What the run did, read before the work on the report begins."""
    if format_ not in ("text", "concise", "markdown") and output is None:
        raise click.UsageError(
            f"--ledger prints text after the report, which is not valid {format_}: give --output FILE for the report, or --format text"
        )
    from hpushim.ledgers.reading import read
    from hpushim.ledgers.telling import tell

    return tell(read(ledger), matrix)
