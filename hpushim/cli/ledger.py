"""``hpushim ledger``: what ran on the emulated HPU, line by line, from the file that ``hpushim run --ledger`` wrote."""

from __future__ import annotations

from pathlib import Path

import click

from hpushim.ledgers.rendering import FORMATS


@click.command("ledger")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--format", "format_", type=click.Choice(FORMATS), default=FORMATS[0])
@click.option(
    "--output",
    "-o",
    type=click.Path(readable=False, path_type=Path),
    help="Write to a file instead of standard output.",
)
@click.option("--all", "everything", is_flag=True, help="With text: show every line and event.")
def command(file: Path, format_: str, output: Path | None, everything: bool) -> int:
    """Show what a run did, from the FILE that `hpushim run --ledger FILE` wrote.

    For each line of source, yours first: graphs and what ended them, recompilations with the dimension that changed, host
    syncs, what would run on the CPU, narrower dtypes, copies, collectives; then memory, steps, and what the matrix says to
    each. Everything is emulated: no figure is a Gaudi's speed.
    """
    from hpushim.cli.output import ready, show_text
    from hpushim.ledgers.reading import read
    from hpushim.ledgers.rendering import render
    from hpushim.ledgers.summary import summarize
    from hpushim.matrix import load

    ready(output, Path())
    summary = summarize(read(file), load())
    return 0 if show_text(render(summary, format_, everything=everything), output, Path()) else 3
