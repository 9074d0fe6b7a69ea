"""``hpushim merge-driver``: what git runs for a file that both sides changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import read_request, rule_options, target_options
from hpushim.cli.output import say

_FILE = click.Path(path_type=Path)


@click.command("merge-driver")
@click.argument("base", type=_FILE)
@click.argument("ours", type=_FILE)
@click.argument("theirs", type=_FILE)
@click.option("--path", help="The file's path in the project (git: %P); OURS when not given.")
@click.option(
    "--marker-size", type=click.IntRange(1), default=7, help="Length of conflict markers (git: %L)."
)
@target_options
@rule_options
def command(
    base: Path,
    ours: Path,
    theirs: Path,
    path: str | None,
    marker_size: int,
    jobs: int | None,
    **options: Any,
) -> int:
    """Merge THEIRS into OURS, all three migrated in memory first. The result is written to OURS.

    git runs this for files that both sides changed, once `hpushim init --git` has set it up. The options are those
    that the project was migrated with; [tool.hpushim] gives what the command line does not.

    Exit code 0: merged. 1: there are conflicts, marked in OURS, or the file is binary and was left as it is.
    """
    from hpushim import safe_files, showing
    from hpushim.errors import HpushimError
    from hpushim.following.merging import How, merge, plain

    top = Path.cwd()
    name = path or str(ours)
    versions = (base, ours, theirs)
    try:
        request = read_request((top / name,), options)
        how = How(
            request.target,
            request.matrix(),
            request.select,
            request.ignore,
            request.exclude,
            request.unsafe,
        )
        merged = merge(versions, name, top, how, marker_size)
    except HpushimError as error:
        # Settings in conflict themselves, most likely: a merge without them is better than none.
        merged = plain(versions, marker_size, str(error))
    for note in merged.notes:
        say(f"hpushim: {showing.quoted(name)}: {note}", err=True)
    if merged.data is not None:
        safe_files.write(ours, merged.data, project=top)
    return 1 if merged.conflicts else 0
