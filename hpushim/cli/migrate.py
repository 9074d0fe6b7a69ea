"""``hpushim migrate``: rewrites a project, previews it, takes it back."""

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


@click.command("migrate")
@paths_argument
@click.option("--diff", is_flag=True, help="Show the changes as a diff and write nothing.")
@click.option("--undo", is_flag=True, help="Restore what the last migrate under PATH changed.")
@click.option("--force", is_flag=True, help="With --undo: restore files that were edited since.")
@click.option("--allow-dirty", is_flag=True, help="Rewrite files with uncommitted changes too.")
@target_options
@rule_options
@output_options
def command(
    paths: tuple[Path, ...],
    diff: bool,
    undo: bool,
    force: bool,
    allow_dirty: bool,
    format_: str,
    output: Path | None,
    jobs: int | None,
    **options: Any,
) -> int:
    """Rewrite CUDA code under PATH (default: the current folder) for Gaudi, in place.

    Refuses files with uncommitted changes unless --allow-dirty is given; --undo restores every byte. With PATH -, it
    rewrites standard input to standard output and writes no file; exit code 0 means that the output is complete.

    Exit code 0: all rewrites were made; `hpushim check` judges what is left. 1: --diff shows changes.
    3: a file could not be read or an edit was rejected.
    """
    if undo:
        return _undo(paths or (Path(),), force)
    from hpushim.cli.output import exit_code, progress, ready, say, show, show_diff, show_result
    from hpushim.engine.project import migrate

    asked = request(paths, options)
    ready(output, asked.root)
    try:
        with progress("migrating") as update:
            report = migrate(
                asked.paths,
                asked.target,
                matrix=asked.matrix(),
                given=asked.given,
                select=asked.select,
                ignore=asked.ignore,
                exclude=asked.exclude,
                unsafe=asked.unsafe,
                jobs=jobs,
                progress=update,
                write=not (diff or asked.given),
                allow_dirty=allow_dirty,
            )
    except KeyboardInterrupt:
        say("hpushim: stopped; --undo restores the files that were already rewritten", err=True)
        return 130
    ended = exit_code(report, pending=diff, fail_on="never")
    if asked.given and not diff:
        show_result(report, *asked.given.values())
        return ended
    shown = True
    if diff:
        show_diff(report)
    if output is not None or not diff:
        shown = show(report, format_, output, asked.root)
    return ended if shown else 3


def _undo(paths: tuple[Path, ...], force: bool) -> int:
    from hpushim import showing
    from hpushim.cli.output import say
    from hpushim.engine.project import undo

    refused = 0
    for start in paths:
        done = undo(start, force=force)
        for path in done.restored:
            say(f"restored {showing.quoted(path)}")
        for path, reason in done.refused:
            say(f"not restored {showing.quoted(path)}: {reason}", err=True)
        for path, reason in done.unused:
            say(f"{path}: not used: {reason}", err=True)
        refused += len(done.refused) + len(done.unused)
        say(f"{_files(len(done.restored))} restored" if done.run else f"{start}: nothing to undo")
    return 3 if refused else 0


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"
