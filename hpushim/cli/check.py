"""``hpushim check``: findings and an exit code; never writes to the project, but for a baseline that is requested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpushim.cli.options import (
    Request,
    cache_option,
    output_options,
    paths_argument,
    read_request,
    rule_options,
    target_options,
)

if TYPE_CHECKING:
    from hpushim.report.narrowing import Baseline

_MAX_BASELINE = 64 << 20
#: The longest token that is shown whole.
_TOKEN = 60


@click.command("check")
@paths_argument
@target_options
@rule_options
@output_options
@cache_option
@click.option("--exit-zero", is_flag=True, help="Exit 0 even with findings.")
@click.option("--fail-on", type=click.Choice(("error", "warning", "note")),
              help="Lowest severity that fails the check (default: warning; `unknown` counts as warning).")  # fmt: skip
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE",
              help="Report only findings that are not in FILE.")  # fmt: skip
@click.option("--write-baseline", is_flag=True, help="Write all findings to the --baseline FILE, and exit 0.")  # fmt: skip
@click.option("--since", metavar="REV",
              help="Report only lines changed since the current branch diverged from REV, such as origin/main.")  # fmt: skip
@click.option("--explain-silence", is_flag=True,
              help="List the CUDA tokens that no rule reports, each with the reason, and exit 0.")  # fmt: skip
def command(
    paths: tuple[Path, ...],
    format_: str,
    output: Path | None,
    exit_zero: bool,
    write_baseline: bool,
    since: str | None,
    explain_silence: bool,
    jobs: int | None,
    cache: bool,
    **options: Any,
) -> int:
    """Report CUDA uses under PATH (default: the current folder) without writing anything.

    Exit code 0: nothing to do. 1: findings. 2: usage error. 3: a file could not be read.
    """
    from hpushim.cli.output import exit_code, progress, ready, say, show
    from hpushim.engine.project import analyse
    from hpushim.report import PROPOSING, narrowing

    request = read_request(paths, options)
    if explain_silence:
        return _silence(request)
    ready(output, request.root)
    known = None if write_baseline else _known(request)
    if write_baseline:
        _writable(request, since)
    past = None
    if since is not None:
        from hpushim.engine.files.history import Past

        past = Past(request.root, since)
    with progress("checking") as update:
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
    if request.target.style == "agnostic":
        report = narrowing.for_every_device(report)
    if write_baseline:
        return _write(request, narrowing.baseline_of(report), exit_code(report))
    if past is not None:
        shown_files = [file.path for file in report.files if file.findings]
        report = narrowing.only_changed(report, past.contents(shown_files))
    if known is not None:
        report, left_out, gone = narrowing.without(report, known)
        old = (
            f"; {gone} of its findings no longer occur, --write-baseline removes them"
            if gone
            else ""
        )
        say(f"hpushim: {left_out} findings are in the baseline and not shown{old}", err=True)
    if not show(report, format_, output, request.root):
        return 3
    return 0 if exit_zero else exit_code(report, fail_on=request.fail_on)


def _silence(request: Request) -> int:
    """What becomes of each CUDA token: the inert ones by line, then how many there are of each outcome."""
    from hpushim.cli.output import say
    from hpushim.engine.project import account

    counts = dict.fromkeys(("rewritten", "found", "inert", "unknown"), 0)
    files = account(request.paths, request.target, matrix=request.matrix(), exclude=request.exclude, given=request.given)  # fmt: skip
    for path, entries in files:
        for entry in entries:
            counts[entry.outcome] += 1
            if entry.outcome == "inert":
                token = " ".join(entry.token.split())
                shown = token if len(token) <= _TOKEN else f"{token[: _TOKEN - 1]}…"
                say(f"{path}:{entry.line}:{entry.column}: {shown}: {entry.reason}")
    say(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0


def _known(request: Request) -> Baseline | None:
    """The baseline that was requested; HpushimError where it cannot be read."""
    if request.baseline is None:
        return None
    from hpushim import safe_files
    from hpushim.errors import HpushimError
    from hpushim.report.narrowing import read_baseline

    try:
        data = safe_files.read(request.baseline, _MAX_BASELINE)
    except OSError as error:
        raise HpushimError(
            f"--baseline {request.baseline}: cannot be read: {error.strerror}; --write-baseline creates it"
        ) from None
    return read_baseline(data, str(request.baseline))


def _writable(request: Request, since: str | None) -> None:
    from hpushim.cli.output import ready

    if request.baseline is None:
        raise click.UsageError("--write-baseline needs --baseline FILE")
    if since is not None:
        raise click.UsageError("--write-baseline records the whole project; leave --since out")
    ready(request.baseline, request.root, "--baseline")


def _write(request: Request, text: str, code: int) -> int:
    """Writes the baseline; 3 where that fails or a file could not be assessed."""
    from hpushim import safe_files
    from hpushim.cli.output import say

    assert request.baseline is not None
    try:
        safe_files.write(request.baseline, text.encode(), project=request.root)
    except OSError as error:
        say(f"hpushim: {request.baseline} cannot be written: {error.strerror}", err=True)
        return 3
    say(f"baseline written to {request.baseline}", err=True)
    return 3 if code == 3 else 0
