"""``hpushim prove``: shows that a migrated script does what the original did."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import target_options


@click.command(
    "prove",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-m", "module", metavar="MODULE", help="Prove a module, as python -m runs it.")
@click.option(
    "--steps",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="End each run after this many optimizer steps; 0 lets the script end by itself.",
)
@click.option("--cpu-args", metavar="ARGS", help="What keeps the script on the CPU, such as '--device cpu'.")  # fmt: skip
@click.option("--no-cpu", is_flag=True, help="Leave out the run on the CPU.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=600, show_default=True, help="Seconds for a run."
)
@click.option("--seed", type=int, default=1234, show_default=True, help="Seed of all three runs.")
@click.option("--devices", type=click.IntRange(1), help="Emulated cards (default: the launcher's processes).")  # fmt: skip
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The project's folder, where it is not found by itself.")  # fmt: skip
@click.option("--unsafe/--safe", "unsafe", default=None, help="Also make rewrites that are only probably right.")  # fmt: skip
@click.option("--select", multiple=True, metavar="CODES", help="Make only these rewrites.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Leave out these rewrites.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the copies and records in this folder.")  # fmt: skip
@target_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def command(module: str | None, words: tuple[str, ...], **options: Any) -> int:
    """Run SCRIPT on the CPU, under the shim, and its migrated copy on the emulated HPU, and compare them.

    Also a module with -m, `torchrun … SCRIPT`, `accelerate launch … SCRIPT`, or a notebook. Runs in scratch copies: your files are
    only read. Options of hpushim stand before SCRIPT; everything after it is the script's.

    Exit code 0: equal. 1: different. 3: nothing was proved, because the script does not train by itself.
    """
    from hpushim.cli.options import request
    from hpushim.cli.output import say
    from hpushim.prove import text
    from hpushim.prove.trial import Request, prove
    from hpushim.prove.words import parse

    if module is None and not words:
        raise click.UsageError(
            "name a script, such as `hpushim prove train.py`, or a module with -m"
        )
    try:
        parsed = parse(words, module)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    own = {name: options.pop(name) for name in ("steps", "cpu_args", "no_cpu", "timeout", "seed", "devices", "root", "keep")}  # fmt: skip
    asked = request((Path(),), {**options, "exclude": ()})
    told = own.pop("cpu_args")
    outcome = prove(
        Request(
            command=parsed,
            target=asked.target,
            matrix=asked.matrix(),
            select=asked.select,
            ignore=asked.ignore,
            unsafe=asked.unsafe,
            cpu_args=None if told is None else tuple(shlex.split(told)),
            **own,
        ),
        lambda line: say(f"hpushim: {line}", err=True),
    )
    say(text.text(outcome, shlex.join(["hpushim", "prove", *parsed.shown()])), nl=False)
    return {"different": 1, "not proved": 3}.get(outcome.verdict, 0)
