"""``hpushim report``: the judgement of a project; exit code 0 whatever it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import (
    output_options,
    paths_argument,
    request,
    rule_options,
    target_options,
)


@click.command("report")
@paths_argument
@target_options
@rule_options
@output_options
def command(
    paths: tuple[Path, ...], format_: str, output: Path | None, jobs: int | None, **options: Any
) -> int:
    """Judge PATH (default: here): what runs on Gaudi, what changes meaning, what blocks.

    Exit code 0; 3 when a file could not be read, because the verdict is then incomplete.
    """
    from hpushim.cli.output import exit_code, progress, ready, show
    from hpushim.engine.project import analyse

    asked = request(paths, options)
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
        )
    shown = show(report, format_, output, asked.root)
    return 3 if exit_code(report) == 3 or not shown else 0
