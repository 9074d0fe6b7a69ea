"""``hpushim matrix``: show, check, compare and count the compatibility matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpushim.cli.api import form_options, machine_options, question, width
from hpushim.cli.output import say, say_json


@click.group("matrix")
def command() -> None:
    """Show, check, compare and count the compatibility matrix."""


@command.command("show")
@click.option("--area", help="Only one area, such as memory.")
@click.option("--status", help="Only one status, such as unknown.")
@click.option("--kind", help="Only one kind, such as env.")
@machine_options
@form_options
def show(
    area: str | None, status: str | None, kind: str | None, form: str | None, **machine: Any
) -> int:
    """List the rows; --markdown without a filter writes the whole page."""
    from hpushim.report import rows

    matrix, wanted = question(**machine)
    if form == "markdown" and not (area or status or kind):
        say(rows.page(matrix), nl=False)
        return 0
    verdicts = [
        verdict
        for row in matrix.rows
        if (not area or row.area == area)
        and (not kind or row.kind == kind)
        and (verdict := matrix.assess(row, wanted))
        and (not status or verdict.status == status)
    ]
    if not verdicts:
        raise click.UsageError(_choices(area, status, kind))
    if form == "json":
        say_json([rows.data(matrix, verdict) for verdict in verdicts])
    elif form == "markdown":
        say(rows.markdown(verdicts), nl=False)
    else:
        say(rows.table(verdicts, width()), nl=False)
    return 0


@command.command("check")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("--sources", "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FOLDER",
              help="Open the cited repositories that lie in FOLDER (as KEY, NAME, OWNER+NAME or OWNER/NAME; work "
                   "trees or git directories) and say which cited lines moved or changed since they were read.")  # fmt: skip
@click.option("--as-cited", is_flag=True, help="Read git repositories at the cited revision, not at their newest.")  # fmt: skip
@click.option(
    "--fill", is_flag=True, help="Write the fingerprints that readings lack; implies --as-cited."
)
def check(files: tuple[Path, ...], folder: Path | None, as_cited: bool, fill: bool) -> int:
    """Check the shipped matrix, with FILE rows over it (default: those of [tool.hpushim] matrix), and its readings.

    Exit code 1 when a row lacks something or a cited place is not as it was read, 2 when a file cannot be used at all.
    """
    from hpushim.cli.options import own_rows, settings
    from hpushim.engine.rules.registry import every_rule
    from hpushim.matrix import load
    from hpushim.matrix.readings import flaws as reading_flaws
    from hpushim.matrix.readings import load_readings
    from hpushim.matrix.summary import flaws

    if folder:
        return _compare(folder, as_cited, fill)
    if as_cited or fill:
        raise click.UsageError("--as-cited and --fill need --sources FOLDER")

    if not files:
        found, file = settings(Path())
        files = own_rows(found, file, ())
    matrix = load(extra=files)
    codes = {code for rule in every_rule() for code in rule.codes}
    wrong = [
        f"{row.origin or matrix.path}: row {row.name!r}, field `{field}`: {complaint}"
        for row, field, complaint in flaws(matrix, codes)
    ]
    wrong += [
        f"{matrix.path}: row {name!r}: {complaint}"
        for name, complaint in reading_flaws(load(), load_readings())
    ]
    for line in wrong:
        say(line, err=True)
    own = sum(bool(row.origin) for row in matrix.rows)
    say(f"{len(matrix.rows)} rows, {own} of them from {len(files)} own files: "
               f"{len(wrong) or 'nothing'} wrong")  # fmt: skip
    return 1 if wrong else 0


def _compare(folder: Path, as_cited: bool, fill: bool) -> int:
    """The cited places beside the repositories in a folder."""
    from hpushim.matrix import load, sources
    from hpushim.matrix.readings import load_readings, readings_path
    from hpushim.report import rows

    matrix = load()
    as_cited = as_cited or fill  # a fingerprint vouches for the lines that were read
    found = tuple(sources.compare(load_readings(), matrix.sources, folder, as_cited))
    if fill:
        say(f"{sources.fill(readings_path(), found)} fingerprints written")
    say(rows.places_text(found), nl=False)
    hits, done = sources.repeat(matrix.rows, matrix.sources, folder, as_cited)
    say(rows.searches_text(hits, done), nl=False)
    return 1 if hits or any(item.state in ("moved", "changed", "gone") for item in found) else 0


@command.command("diff")
@click.argument("before")
@click.argument("after")
@click.option("--target", type=click.Choice(("gaudi1", "gaudi2", "gaudi3")), default="gaudi2")
@click.option("--mode", type=click.Choice(("portable", "eager", "compile", "lazy")), default="portable",
              help="portable (the default) compares each release in its own default mode.")  # fmt: skip
@form_options
def diff(before: str, after: str, target: Any, mode: Any, form: str | None) -> int:
    """What changes between releases BEFORE and AFTER, such as 1.20 and 1.24."""
    from hpushim.matrix.summary import changes
    from hpushim.report import rows

    matrix, old = question(target, before, mode, here=False)
    _, new = question(target, after, mode, here=False)
    found = changes(matrix, old, new)
    if form == "json":
        say_json(found)
        return 0
    releases = [matrix.release(stack) for stack in (before, after)]
    head = " → ".join(
        f"{item.stack} (torch {' or '.join(item.torch) or 'not established'}, {item.default_mode})"
        for item in releases
        if item
    )
    say(f"{head}: {len(found)} rows differ\n")
    if found:
        say(rows.changes_text(found, form == "markdown", width()), nl=False)
    return 0


@command.command("stats")
@form_options
def stats(form: str | None) -> int:
    """Counts by area, status, confidence and run-time action."""
    from hpushim.matrix.summary import counts
    from hpushim.report import rows

    matrix, _ = question(None, None, None)
    found = counts(matrix)
    if form == "json":
        say_json(found)
    else:
        say(rows.counts_text(found, form == "markdown", width()), nl=False)
    return 0


@command.command("schema")
def schema() -> int:
    """The JSON schema of the file, for editors."""
    from hpushim.matrix.summary import json_schema

    say(json_schema().decode(), nl=False)
    return 0


def _choices(area: str | None, status: str | None, kind: str | None) -> str:
    from typing import get_args

    from hpushim.matrix import schema as columns

    for value, known, name in (
        (area, get_args(columns.Area), "area"),
        (status, get_args(columns.Status), "status"),
        (kind, get_args(columns.Kind), "kind"),
    ):
        if value and value not in known:
            return f"no {name} {value!r}; one of {', '.join(known)}"
    return "no row matches"
