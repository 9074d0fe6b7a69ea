"""``hpushim run``: a CUDA script on HPU, unedited; or a migrated one on the emulated HPU."""

from __future__ import annotations

from typing import get_args

import click

from hpushim.cli.options import run_mode_option
from hpushim.cli.program import ProgramCommand
from hpushim.model import Generation


@click.command("run", cls=ProgramCommand)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does.")
@click.option("-c", "code", metavar="CODE", help="Run this code, as python -c does.")
@click.option(
    "--native",
    is_flag=True,
    help="The program is already HPU code: patch nothing; emulate only where there is no Gaudi.",
)
@click.option(
    "--target",
    "gaudi",
    type=click.Choice(get_args(Generation)),
    help="Gaudi generation to emulate.",
)
@run_mode_option
@click.option(
    "--devices", type=click.IntRange(1), help="Emulated devices that launchers see (default 1)."
)
@click.option(
    "--ledger", type=click.Path(dir_okay=False), help="Write the ledger of the run as JSON."
)
@click.option(
    "--show-rewrites", is_flag=True, help="Show the device comparisons rewritten at load time."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only problems (HPUSHIM_LOG=quiet).")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT] [ARGS]...")
def command(
    module: str | None,
    code: str | None,
    native: bool,
    gaudi: str | None,
    mode: str | None,
    devices: int | None,
    ledger: str | None,
    show_rewrites: bool,
    quiet: bool,
    words: tuple[str, ...],
) -> int:
    """Run SCRIPT, a module with -m, code with -c, a notebook, a shell script, or a launcher such as torchrun, and direct
    its CUDA calls to HPU. SCRIPT - is standard input.

    A notebook runs by its cells, in its own folder; `hpushim run bash train.sh` has HPU in every Python that the script starts.
    Without a Gaudi the HPU is emulated on host memory. Options of hpushim come before SCRIPT; everything
    after it is the script's. Ends with the script's own exit code. The last lines on standard error say what ran
    where, what differs on a Gaudi, and where to look; --ledger records the lines for `hpushim ledger`.
    """
    import os

    from hpushim.errors import HpushimError
    from hpushim.shim.run.launch import Kind, run
    from hpushim.shim.run.target import target_of

    if quiet:
        os.environ["HPUSHIM_LOG"] = "quiet"

    kind: Kind
    if module is not None:
        kind, target, args = "module", module, words
    elif code is not None:
        kind, target, args = "code", code, words
    elif words:
        kind, target, args = "file", words[0], words[1:]
        try:
            target_of(target, args)
        except HpushimError as error:
            raise click.UsageError(str(error)) from None
    else:
        raise click.UsageError(
            "name a script, such as `hpushim run train.py`, or a module with -m; expected what python itself takes"
        )
    run(
        target,
        args,
        kind=kind,
        gaudi=gaudi,
        mode=mode,
        ledger=ledger,
        devices=devices,
        show_rewrites=show_rewrites,
        native=native,
    )
