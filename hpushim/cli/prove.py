"""``hpushim prove``: shows that a migrated script does what the original did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import target_options
from hpushim.cli.program import ProgramCommand
from hpushim.cli.proofs import PROOF, proof_options

#: Options that say what is proved and how, as the request names them.
_OWN = (*PROOF, "root", "keep")
_NOT_SHOWN = ("not proved", "not distinguishable")


@click.command("prove", cls=ProgramCommand)
@click.option("-m", "module", metavar="MODULE", help="Prove a module, as python -m runs it.")
@proof_options
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The project's folder (default: found from the script).")  # fmt: skip
@click.option("--unsafe/--safe", "unsafe", default=None, help="Also make unsafe rewrites, which may be wrong.")  # fmt: skip
@click.option("--select", multiple=True, metavar="CODES", help="Make only these rewrites.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Leave out these rewrites.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the copies and records in this folder.")  # fmt: skip
@click.option("--fail-under", type=click.FloatRange(0, 100), default=0, metavar="PERCENT", help="Exit code 1 where fewer of the rewrites ran.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(("refused",)), help="Exit code 5 when the runs agree but use an operator or a dtype that Gaudi refuses.")  # fmt: skip
@target_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
def command(module: str | None, words: tuple[str, ...], **options: Any) -> int:
    """Run SCRIPT on the CPU, under the shim, and its migrated copy on the emulated HPU, and compare them.

    Also a module with -m, `torchrun … SCRIPT`, `accelerate launch … SCRIPT`, or a notebook. Runs in scratch copies: your files are
    only read. Options of hpushim come before SCRIPT; everything after it is the script's.

    Exit code 0: equal. 1: different. 3: nothing was proved: no optimizer step was seen, the script fails in every run that can be compared, or
    the runs are so far apart that rounding and a fault look alike. 5: with --fail-on refused, where a Gaudi refuses what ran.
    """
    from hpushim.cli import proofs
    from hpushim.cli.options import read_request
    from hpushim.cli.output import ready, say
    from hpushim.prove import text
    from hpushim.prove.certificate import certificate
    from hpushim.prove.trial import prove

    parsed = proofs.parsed(words, module)
    fail_under, fail_on = options.pop("fail_under"), options.pop("fail_on")
    own = {name: options.pop(name) for name in _OWN}
    files = [own.pop("certificate"), own.pop("page")]
    request = read_request((Path(),), {**options, "exclude": ()})
    wanted = proofs.proof(parsed, request, own)
    for file in files:
        ready(file, request.root)
    outcome = prove(wanted, lambda line: say(f"hpushim: {line}", err=True))
    again = proofs.again(click.get_current_context(), parsed.shown())
    say(text.text(outcome, again), nl=False)
    proofs.write(certificate(wanted, outcome, again), files, request.root)
    share = outcome.coverage.share
    if share is not None and share * 100 < fail_under:
        say(f"hpushim: {share:.0%} of the rewrites ran; --fail-under requires {fail_under:g} %", err=True)  # fmt: skip
        return 3 if outcome.verdict in _NOT_SHOWN else 1
    if outcome.verdict.startswith("equal"):
        return 5 if fail_on and outcome.refused else 0
    return 3 if outcome.verdict in _NOT_SHOWN else 1
