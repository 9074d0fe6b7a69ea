"""``hpushim check``: findings and an exit code; never writes to the project."""

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


@click.command("check")
@paths_argument
@target_options
@rule_options
@output_options
@click.option("--exit-zero", is_flag=True, help="Exit 0 even with findings.")
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    exit_zero: bool,
    jobs: int | None,
    **options: Any,
) -> int:
    """Report CUDA uses under PATH (default: here) without writing anything.

    Exit code 0: nothing to do. 1: findings. 3: a file could not be read.
    """
    from hpushim.cli.output import exit_code, progress, ready, show
    from hpushim.engine.project import analyse

    asked = request(paths, options)
    ready(output, asked.root)
    with progress("checking") as update:
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
    if not shown:
        return 3
    return 0 if exit_zero else exit_code(report)
