"""``hpushim plan``: what a program sends and holds on many devices, from one rank that runs here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal, get_args

import click

from hpushim.cli.options import run_mode_option
from hpushim.cli.output import say, say_json
from hpushim.cli.program import ProgramCommand
from hpushim.model import Generation


@click.command("plan", cls=ProgramCommand)
@click.option(
    "--world",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    help="Total number of ranks, one per device.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Stop after this many optimizer steps.",
)
@click.option(
    "--fake",
    is_flag=True,
    help="Compute nothing and allocate no memory: for a model that does not fit on this machine.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.option("--native", is_flag=True, help="The program is HPU code already: patch nothing.")
@click.option("--target", type=click.Choice(get_args(Generation)), help="Gaudi generation.")
@run_mode_option
@click.option("--stack", metavar="RELEASE", help="Gaudi software release, such as 1.24.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT] [ARGS]...")
def command(
    world: int,
    steps: int,
    fake: bool,
    module: str | None,
    native: bool,
    target: Generation | None,
    mode: Literal["eager", "compile", "lazy"] | None,
    stack: str | None,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Estimate the communication and memory of SCRIPT on WORLD devices, by running one rank of it on the emulated HPU.

    torch's fake process group replaces the other ranks. Name the script itself, without torchrun; options of hpushim
    come before it. A run without arithmetic, --fake, takes little memory and time whatever the model. What it prints goes to standard error, the estimate to standard output.
    """
    from hpushim.cli.api import question
    from hpushim.plan.estimate import estimate
    from hpushim.plan.rank import Enough, Rank, environment
    from hpushim.plan.text import render
    from hpushim.shim.detect import emulated_device
    from hpushim.shim.run.launch import run

    if module is None and not words:
        raise click.UsageError("name a script, such as `hpushim plan --world 64 train.py`")
    program, args = (module, words) if module is not None else (words[0], words[1:])
    if module is None and not (Path(program).suffix == ".py" and Path(program).is_file()):
        raise click.UsageError(
            f"{program}: expected a Python file, without a launcher, since one rank runs; check the path"
        )
    matrix, wanted = question(target, stack, mode, here=False)
    info = matrix.generations[wanted.gaudi]
    os.environ.update(environment(world, info.cards))
    os.environ["HPUSHIM"] = "emulate"
    rank = Rank(world, steps, device=emulated_device, memory=info.memory_bytes, fake=fake)
    status = 0
    shown, sys.stdout = sys.stdout, sys.stderr
    try:
        run(
            program,
            args,
            kind="file" if module is None else "module",
            gaudi=wanted.gaudi,
            mode=mode,
            devices=min(world, info.cards),
            native=native,
            before=rank.begin,
        )
    except Enough:
        pass
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout = shown
    observed = rank.end()
    if mode == "compile":
        observed.notes.append(
            "the plan runs without torch.compile to see each operator, so compile mode is estimated as eager mode"
        )
    if status:
        observed.notes.append(
            f"the program ended early with status {status}: the estimate covers only what ran"
        )
    if not observed.began:
        observed.notes.append("the program made no process group: it trains on one device only")
    found = estimate(observed, matrix, wanted)
    if as_json:
        import msgspec

        say_json(msgspec.to_builtins(found))
    else:
        say(render(found, matrix), nl=False)
    return 1 if status else 0
