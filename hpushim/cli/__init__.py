"""The ``hpushim`` command: one file per subcommand, each imported only when it is called.

A subcommand parses, calls, prints; it computes nothing. Exit codes: 0 nothing to do, 1 findings or
changes pending, 2 wrong usage, 3 a file could not be read or written or an edit was rejected, 4 internal error.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

import click

import hpushim
from hpushim.errors import HpushimError

#: Subcommand → its line in ``--help``. The command itself is ``hpushim.cli.<name>:command``, with ``_`` for ``-``.
COMMANDS = {
    "migrate": "Rewrite CUDA code for Gaudi; --diff previews, --undo restores.",
    "check": "Report CUDA uses without writing anything; for CI.",
    "report": "Assess a project: what runs on Gaudi, what changes, what stops.",
    "portfolio": "Assess many repositories: one page, a row for each.",
    "run": "Run a CUDA script on Gaudi, or on an emulated HPU, without editing it.",
    "prove": "Compare the migrated script with the original, step by step.",
    "ledger": "Show what each source line ran, from a file that `run --ledger` wrote.",
    "plan": "Estimate a program's communication and memory on many devices.",
    "explain": "Explain a code such as HPU102, or search for one.",
    "api": "Look up what Gaudi does with a CUDA name.",
    "matrix": "Show, check, compare and count the compatibility matrix.",
    "doctor": "Check torch, the Gaudi software and the settings on this machine.",
    "init": "Write [tool.hpushim] settings; --git sets up merges from upstream.",
    "merge-driver": "Merge upstream commits into a migrated branch; git runs it.",
}


def _module(name: str) -> str:
    return f"hpushim.cli.{name.replace('-', '_')}"


class _Lazy(click.Group):
    """Loads a subcommand when it is called, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(_module(cmd_name)).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else f"; the commands are {', '.join(COMMANDS)}"
            )
            ctx.fail(f"no command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(hpushim.__version__, message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Run and port CUDA training scripts on Intel Gaudi.

    `python -m hpushim` imports modules from the current folder first. In a folder that you do not trust, use
    `hpushim` or `python -P -m hpushim`.
    """
    # https://no-color.org; a dumb terminal shows no colours either.
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False


def script() -> int:
    """The ``hpushim`` command as a process of its own.

    Commands that only read and report do without the collector of circles, and end without taking down what they built: together a
    third of what a small ``check`` costs. Others may run the user's program, whose own ending counts.
    """
    if sys.argv[1:2] not in (["check"], ["report"]):
        return main()
    gc.disable()
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return code  # Python's own ending says what is wrong
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    # The package enables the shim when it is imported; a command is no training script.
    hpushim.disarm()
    _open_streams()
    try:
        for word in argv or ():
            _nameable(word)
        result = cli.main(args=argv, prog_name="hpushim", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        # The reader (head, less) left; nothing is wrong, and nothing more can be said.
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        return 0
    except (Exception, click.exceptions.Abort) as error:
        return _reported(error)


def _nameable(word: str) -> None:
    """The system's own words name files, whatever their bytes; a caller in Python can give half a character, which names none."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        raise click.UsageError(f"argument {word!r}: not valid Unicode") from None


def _open_streams() -> None:
    """Python sets a stream that was closed before the start (``hpushim check . >&-``) to None; then nobody reads it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115


def _reported(error: BaseException) -> int:
    """Says what was wrong and returns the exit code for it."""
    from hpushim.cli.output import say

    if isinstance(error, click.exceptions.Abort):
        say("hpushim: stopped", err=True)
        return 130
    if isinstance(error, click.ClickException):
        import io

        shown = io.StringIO()
        error.show(file=shown)
        say(shown.getvalue(), err=True, nl=False)
        return 2
    if isinstance(error, HpushimError):
        say(f"hpushim: {error}", err=True)
        return 2
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{error.strerror or error}"
        say(f"hpushim: {why}; check that path and try again", err=True)
        return 2
    if isinstance(error, MemoryError):
        say("hpushim: not enough memory; name fewer files, or give --jobs 1", err=True)
        return 3
    import traceback

    say("".join(traceback.format_exception(error)), err=True, nl=False)
    say(
        f"hpushim: internal error ({type(error).__name__}: {error}); nothing was left half done. "
        "Please report it with the lines above.",
        err=True,
    )
    return 4
