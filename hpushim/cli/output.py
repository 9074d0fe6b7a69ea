"""Where the commands print: reports, diffs, progress and the exit code that goes with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpushim import showing

if TYPE_CHECKING:
    from hpushim.model import Report

#: Codes of the tool itself that mean "a file could not be read or an edit was rejected".
_TROUBLE = {"HPU001", "HPU002", "HPU004", "HPU006"}
#: The severities that fail `check`, by where the line is drawn.
_FAILING = {
    "error": ("error",),
    "warning": ("error", "warning", "unknown"),
    "note": ("error", "warning", "unknown", "note"),
    "never": (),
}
#: Kinds of file that a report never is, so that one is not written over the other by mistake.
_CODE = ("python", "notebook", "shell", "dockerfile", "makefile", "requirements")
#: Seconds after which a stage reports itself where there is no terminal.
_PATIENCE = 2.0
#: No progress and no notices; set by ``--quiet``.
quiet = False


def notice(text: str) -> None:
    """Says on standard error what a user need not know, unless he wants quiet."""
    if not quiet:
        say(text, err=True)


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints text of one or more lines; nothing in it can give orders to a terminal or fail to be encoded."""
    _takes_all(err)
    click.echo(showing.lines(text), err=err, nl=nl)


def _takes_all(err: bool) -> None:
    """Lets a stream of a narrow encoding show the rest as escapes."""
    stream = sys.stderr if err else sys.stdout
    if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


def say_json(value: Any) -> None:
    """Prints ``value`` as indented JSON."""
    from hpushim.report.json import dumps

    click.echo(dumps(value), nl=False)


def ready(output: Path | None, project: Path, option: str = "--output") -> None:
    """Raises HpushimError, before any work, when a report cannot be written to ``output``, which ``option`` names."""
    if output is None:
        return
    from hpushim import safe_files
    from hpushim.engine.files import kinds
    from hpushim.errors import HpushimError

    kind = kinds.by_name(output)
    try:
        safe_files.check(output, project=project)
        if kind in _CODE and output.exists():
            raise safe_files.Refused(f"it is {kind} code, which a report would replace")
    except OSError as error:
        raise HpushimError(
            f"{option} {output}: no report can be written there: {error.strerror}; nothing was done"
        ) from None


def show(report: Report, format_: str, output: Path | None, project: Path) -> bool:
    """Prints ``report`` or writes it to ``output``; prints it where it cannot be written, and returns False."""
    from hpushim.report import render

    if output is not None:
        from hpushim import safe_files

        data = render(report, format_).encode("utf-8", "backslashreplace")
        try:
            safe_files.write(output, data, project=project)
        except OSError as error:
            say(f"hpushim: the report cannot be written to {output}: {error.strerror}", err=True)
        else:
            notice(f"report written to {output}")
            return True
    _takes_all(err=False)
    click.echo(render(report, format_, color=sys.stdout.isatty()), nl=False)
    return output is None


def show_text(text: str, output: Path | None, project: Path) -> bool:
    """Prints text, or writes it to ``output``; prints it where it cannot be written, and returns False."""
    if output is not None:
        from hpushim import safe_files

        try:
            safe_files.write(output, text.encode("utf-8", "backslashreplace"), project=project)
        except OSError as error:
            say(f"hpushim: the output cannot be written to {output}: {error.strerror}", err=True)
        else:
            say(f"written to {output}", err=True)
            return True
    _takes_all(err=False)
    click.echo(text, nl=False)
    return output is None


def show_diff(report: Report) -> None:
    """Prints the changes as a unified diff that ``git apply`` and ``patch -p1`` take."""
    from hpushim.report.diff import unified

    colored = sys.stdout.isatty()
    _takes_all(err=False)
    for file in report.files:
        if file.before is not None and file.after is not None:
            text = unified(file.path, file.before, file.after)
            if colored:
                _echo_colored(text)
            else:
                # To a program the bytes go as they are.
                click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
    show_trouble(report)
    _show_left(report)


def _show_left(report: Report) -> None:
    """Says what a diff does not show: the findings that no rewrite of it settles."""
    left = [
        f for file in report.files for f in file.findings if not f.applied and f.severity != "note"
    ]
    if not left:
        return
    unsafe = sum(finding.safety == "unsafe" for finding in left)
    parts = [f"{unsafe} with an unsafe rewrite (add --unsafe)"] if unsafe else []
    if len(left) > unsafe:
        parts.append(f"{len(left) - unsafe} to review by hand")
    notice(f"findings not in the diff: {', '.join(parts)}; `hpushim check` lists them")


def show_result(report: Report, before: bytes) -> None:
    """Prints what became of text that came on standard input: as it came where it could not be rewritten, which is said."""
    (file,) = report.files
    click.echo(before if file.after is None else file.after, nl=False)
    show_trouble(report)


def show_trouble(report: Report) -> None:
    """Says on standard error what could not be read, and which rewrites were refused."""
    for file in report.files:
        for finding in file.findings:
            if finding.code in _TROUBLE:
                where = f"{file.path}:{finding.line}:{finding.column}"
                say(f"{where}: {finding.code} {finding.message}", err=True)


def _echo_colored(text: str) -> None:
    colors = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.split("\n")[:-1]:
        click.secho(showing.one_line(line.removesuffix("\r")), fg=colors.get(line[:1]))


def exit_code(report: Report, *, pending: bool = False, fail_on: str = "warning") -> int:
    """3 when a file was unreadable or an edit rejected, 1 for findings or pending changes, else 0.

    Findings below ``fail_on`` are no reason to fail.
    """
    findings = [f for file in report.files for f in file.findings]
    if any(file.status == "failed" for file in report.files) or any(
        f.code in _TROUBLE for f in findings
    ):
        return 3
    if pending and any(file.status == "changed" for file in report.files):
        return 1
    return int(any(f.severity in _FAILING[fail_on] and not f.applied for f in findings))


@contextmanager
def progress(
    what: str, noun: str = "file", plural: str = "files"
) -> Iterator[Callable[[int, int, str], None] | None]:
    """A callback ``(done, total, path)``: draws a bar on a terminal; elsewhere it writes a line for a stage that takes long."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _bar(what, plural) as update:
            yield update
    else:
        with _lines(what, noun, plural) as update:
            yield update


@contextmanager
def _lines(what: str, noun: str, plural: str) -> Iterator[Callable[[int, int, str], None]]:
    from time import monotonic

    from hpushim.report.verdict import count

    start, reported, ended = monotonic(), False, (0, 0)

    def update(done: int, total: int, path: str) -> None:
        nonlocal reported, ended
        ended = (done, total)
        if not reported and monotonic() - start > _PATIENCE:
            reported = True
            say(f"hpushim: {what} {count(total, noun, plural)} …", err=True)

    yield update
    if reported:
        took = monotonic() - start
        rate = ended[0] / took
        say(
            f"hpushim: {count(ended[0], noun, plural)} in {took:.0f} s, {rate:.1f} {plural}/s",
            err=True,
        )


@contextmanager
def _bar(what: str, plural: str) -> Iterator[Callable[[int, int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        TextColumn(what),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn(
            "{task.fields[path]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        # Until the first file is assessed all of them are found and read.
        task = bar.add_task(what, total=None, path="reading the project", rate="")

        def update(done: int, total: int, path: str) -> None:
            seconds = bar.tasks[task].elapsed or 0.0
            rate = f"{done / seconds:.1f} {plural}/s" if seconds > 0.5 else ""
            shown = showing.quoted(path)
            bar.update(task, completed=done, total=total, path=shown, rate=rate)

        yield update
