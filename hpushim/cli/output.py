"""Where the commands print: reports, diffs, progress and the exit code that goes with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from hpushim.model import Report

#: Codes of the tool itself that mean "a file could not be read or an edit was rejected".
_TROUBLE = {"HPU001", "HPU002", "HPU004", "HPU006"}


def show(report: Report, format_: str, output: Path | None) -> None:
    """Prints ``report`` or writes it to ``output``."""
    from hpushim.report import render

    if output is None:
        click.echo(render(report, format_, color=sys.stdout.isatty()), nl=False)
        return
    output.write_text(render(report, format_), encoding="utf-8")
    click.echo(f"report written to {output}", err=True)


def show_diff(report: Report) -> None:
    """Prints the changes as a unified diff that ``git apply`` and ``patch -p1`` take."""
    from hpushim.report.diff import unified

    for file in report.files:
        if file.before is not None and file.after is not None:
            text = unified(file.path, file.before, file.after)
            if sys.stdout.isatty():
                _echo_colored(text)
            else:
                click.echo(text, nl=False)


def _echo_colored(text: str) -> None:
    colors = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines(keepends=True):
        click.secho(line, fg=colors.get(line[:1]), nl=False)


def exit_code(report: Report, *, pending: bool = False) -> int:
    """3 when a file was unreadable or an edit rejected, 1 for findings or pending changes, else 0.

    Notes (severity ``info``) are no reason to fail.
    """
    findings = [f for file in report.files for f in file.findings]
    if any(file.status == "failed" for file in report.files) or any(
        f.code in _TROUBLE for f in findings
    ):
        return 3
    if pending and any(file.status == "changed" for file in report.files):
        return 1
    return int(any(f.severity != "info" and not f.applied for f in findings))


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int, str], None] | None]:
    """A callback ``(done, total, path)`` that draws on standard error; None when that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[path]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, path="")

        def update(done: int, total: int, path: str) -> None:
            bar.update(task, completed=done, total=total, path=path)

        yield update
