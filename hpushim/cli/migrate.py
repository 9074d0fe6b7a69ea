"""``hpushim migrate``: rewrites a project, previews it, takes it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpushim.cli.options import (
    output_options,
    paths_argument,
    read_request,
    rule_options,
    target_options,
)
from hpushim.cli.proofs import PROOF, proof_options

if TYPE_CHECKING:
    from hpushim.cli.options import Request
    from hpushim.model import Report


class _Command(click.Command):
    """Everything behind ``--prove`` is the command to prove, also where it looks like an option of hpushim."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--prove") if "--prove" in args else len(args)
        rest = super().parse_args(ctx, args[: at + 1])
        ctx.params["prove"] = tuple(args[at + 1 :]) if at < len(args) else None
        return rest


@click.command("migrate", cls=_Command)
@paths_argument
@click.option("--diff", is_flag=True, help="Show the changes as a diff and write nothing.")
@click.option("--undo", is_flag=True, help="Restore what the last migrate under PATH changed.")
@click.option("--force", is_flag=True, help="With --undo: restore files that were edited since.")
@click.option("--allow-dirty", is_flag=True, help="Rewrite files with uncommitted changes too.")
@click.option("--prove", is_flag=True, help="Keep only unsafe rewrites that a proof shows to be right. Everything behind it is the command to prove: SCRIPT ARGS.")  # fmt: skip
@click.option("--split", type=click.Path(path_type=Path), metavar="FOLDER", help="Write one patch for each topic into FOLDER, which `git am` takes, and change no file.")  # fmt: skip
@click.option(
    "--pr",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the description of a pull request.",
)
@proof_options
@target_options
@rule_options
@output_options
def command(
    paths: tuple[Path, ...],
    diff: bool,
    undo: bool,
    force: bool,
    allow_dirty: bool,
    prove: tuple[str, ...] | None,
    split: Path | None,
    pr: Path | None,
    format_: str,
    output: Path | None,
    jobs: int | None,
    **options: Any,
) -> int:
    """Rewrite CUDA code under PATH (default: the current folder) for Gaudi, in place.

    Refuses files with uncommitted changes unless --allow-dirty is given; --undo restores every byte. With PATH -, it
    rewrites standard input to standard output and writes no file; exit code 0 means that the output is complete.

    With --split FOLDER it writes patches in place of the files: one for each topic (devices, mixed precision, distributed, …), each of which
    applies and works without the others.

    With --prove SCRIPT ARGS…, it runs the script and its migrated copy on the emulated HPU as `hpushim prove` does, first with the safe
    rewrites, then with the unsafe ones whose lines ran. It writes the safe rewrites and the unsafe ones with which the copy does what the
    original does, and names the others with their first difference. PATH is the project's folder then.

    Exit code 0: all rewrites were made; `hpushim check` assesses what is left. 1: --diff shows changes, or --prove found a
    difference that no choice of rewrites removes. 3: a file could not be read, an edit was rejected, or nothing was proved.
    """
    if undo:
        return _undo(paths or (Path(),), force)
    from hpushim.cli.output import exit_code, progress, ready, say, show, show_diff, show_result
    from hpushim.engine.project import migrate

    proof = {name: options.pop(name) for name in PROOF}
    request = read_request(paths, options)
    if prove is not None:
        return _proved(request, prove, proof, allow_dirty, None if diff else (format_, output))
    ready(output, request.root)
    ready(pr, request.root, "--pr")
    try:
        with progress("migrating") as update:
            report = migrate(
                request.paths,
                request.target,
                matrix=request.matrix(),
                given=request.given,
                select=request.select,
                ignore=request.ignore,
                exclude=request.exclude,
                unsafe=request.unsafe,
                jobs=jobs,
                progress=update,
                write=not (diff or request.given or split),
                shared=not split,
                allow_dirty=allow_dirty,
            )
    except KeyboardInterrupt:
        say("hpushim: stopped; --undo restores the files that were already rewritten", err=True)
        return 130
    ended = exit_code(report, pending=diff, fail_on="never")
    if request.given and not diff:
        show_result(report, *request.given.values())
        return ended
    shown = True
    if split or pr:
        _parts(request, report, split, pr)
    if diff:
        show_diff(report)
    if output is not None or not diff:
        shown = show(report, format_, output, request.root)
    return ended if shown else 3


def _proved(
    request: Request,
    words: tuple[str, ...],
    proof: dict[str, Any],
    allow_dirty: bool,
    report: tuple[str, Path | None] | None,
) -> int:
    """Migrates as far as a proof goes; without a ``report``, shows the changes as a diff."""
    from hpushim.cli import proofs
    from hpushim.cli.output import exit_code, ready, say, show, show_diff
    from hpushim.engine.project import write
    from hpushim.prove import text
    from hpushim.prove.certificate import certificate
    from hpushim.prove.choose import choose

    if len(request.paths) > 1 or not request.paths[0].is_dir():
        raise click.UsageError("--prove needs one PATH: the project's folder")
    files = [proof.pop("certificate"), proof.pop("page")]
    for file in (*files, report[1] if report else None):
        ready(file, request.root)
    command = proofs.parsed(words)
    wanted = proofs.proof(
        command,
        request,
        {**proof, "root": None if request.paths == (Path(),) else request.paths[0]},
    )
    choice = choose(wanted, lambda line: say(f"hpushim: {line}", err=True))
    again = proofs.again(click.get_current_context(), command.shown())
    found = certificate(wanted, choice.outcome, again, choice.candidates)
    made = choice.outcome.report
    if choice.proved and report:
        made = write(made, wanted.folder, allow_dirty=allow_dirty)
    shown = True
    if choice.proved and not report:
        show_diff(made)
    elif choice.proved and report:
        shown = show(made, *report, request.root)
    say(text.chosen(choice), nl=False, err=not report)
    proofs.write(found, files, request.root)
    if not choice.proved:
        say("hpushim: nothing was written", err=True)
        return 1 if choice.outcome.verdict == "different" else 3
    return exit_code(made, pending=not report, fail_on="never") if shown else 3


def _parts(request: Request, report: Report, folder: Path | None, page: Path | None) -> None:
    """Writes the patches of each topic, and the description."""
    from hpushim import safe_files
    from hpushim.cli.output import say
    from hpushim.engine.project import migrate
    from hpushim.engine.topics import scope, split
    from hpushim.report import pull_request

    def made(codes: tuple[str, ...], *, shared: bool = False) -> Report:
        return migrate(
            request.paths,
            request.target,
            matrix=request.matrix(),
            select=codes,
            ignore=request.ignore,
            exclude=request.exclude,
            unsafe=request.unsafe,
            write=False,
            shared=shared,
        )

    parts = split(report, made) if folder else []
    if len(parts) == 1:  # one patch: its files may share what they need
        together = split(made(request.select, shared=True), made)
        parts = together if len(together) == 1 else parts
    for number, part in enumerate(parts, 1):
        assert folder is not None
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{number:04}-{part.topic.replace(' ', '-')}.patch"
        place = number, len(parts)
        text = pull_request.patch(
            part.topic, part.files, part.findings, request.target.style, place
        )
        safe_files.write(file, text.encode("utf-8", "surrogateescape"), project=request.root)
        say(f"wrote {file}", err=True)
    if page is not None:
        text = pull_request.description(report, scope(report))
        safe_files.write(page, text.encode(), project=request.root)


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
