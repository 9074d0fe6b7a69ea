"""``hpushim prove``: shows that a migrated script does what the original did."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from hpushim.cli.options import target_options
from hpushim.cli.program import ProgramCommand

#: Options that say what is proved and how, as the request names them.
_OWN = ("steps", "cpu_args", "no_cpu", "timeout", "seed", "devices", "root", "keep")
_NOT_AGAIN = ("module", "certificate", "page", "keep", "fail_under", "fail_on")
_NOT_SHOWN = ("not proved", "not distinguishable")


@click.command("prove", cls=ProgramCommand)
@click.option("-m", "module", metavar="MODULE", help="Prove a module, as python -m runs it.")
@click.option(
    "--steps",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="End each run after this many optimizer steps; 0 lets the script end by itself.",
)
@click.option("--cpu-args", metavar="ARGS", help="Arguments that keep the script on the CPU, such as '--device cpu'.")  # fmt: skip
@click.option("--no-cpu", is_flag=True, help="Leave out the run on the CPU.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=600, show_default=True, help="Seconds for a run."
)
@click.option("--seed", type=int, default=1234, show_default=True, help="Seed of all three runs.")
@click.option("--devices", type=click.IntRange(1), help="Emulated devices (default: the launcher's processes).")  # fmt: skip
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), help="The project's folder (default: found from the script).")  # fmt: skip
@click.option("--unsafe/--safe", "unsafe", default=None, help="Also make unsafe rewrites, which may be wrong.")  # fmt: skip
@click.option("--select", multiple=True, metavar="CODES", help="Make only these rewrites.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Leave out these rewrites.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Keep the copies and records in this folder.")  # fmt: skip
@click.option("--certificate", type=click.Path(readable=False, path_type=Path), help="Write the certificate to this file, JSON.")  # fmt: skip
@click.option("--page", type=click.Path(readable=False, path_type=Path), help="Write the certificate to this file, Markdown.")  # fmt: skip
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
    from hpushim import safe_files
    from hpushim.cli.options import request
    from hpushim.cli.output import ready, say
    from hpushim.prove import certificate, text
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
    files = [options.pop("certificate"), options.pop("page")]
    fail_under, fail_on = options.pop("fail_under"), options.pop("fail_on")
    own = {name: options.pop(name) for name in _OWN}
    asked = request((Path(),), {**options, "exclude": ()})
    told = own.pop("cpu_args")
    wanted = Request(
        command=parsed,
        target=asked.target,
        matrix=asked.matrix(),
        select=asked.select,
        ignore=asked.ignore,
        unsafe=asked.unsafe,
        cpu_args=None if told is None else tuple(shlex.split(told)),
        **own,
    )
    for file in files:
        ready(file, asked.root)
    outcome = prove(wanted, lambda line: say(f"hpushim: {line}", err=True))
    again = _again(click.get_current_context(), parsed.shown())
    found = certificate.certificate(wanted, outcome, again)
    say(text.text(outcome, again), nl=False)
    for file, data in zip(
        files, (certificate.to_json(found), certificate.page(found).encode()), strict=True
    ):
        if file is not None:
            safe_files.write(file, data, project=asked.root)
            say(f"certificate written to {file}", err=True)
    share = outcome.coverage.share
    if share is not None and share * 100 < fail_under:
        say(f"hpushim: {share:.0%} of the rewrites ran; --fail-under requires {fail_under:g} %", err=True)  # fmt: skip
        return 3 if outcome.verdict in _NOT_SHOWN else 1
    if outcome.verdict.startswith("equal"):
        return 5 if fail_on and outcome.refused else 0
    return 3 if outcome.verdict in _NOT_SHOWN else 1


def _again(context: click.Context, words: tuple[str, ...]) -> str:
    """The command line that repeats this proof: every option that was given."""
    given: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if not isinstance(parameter, click.Option) or name in _NOT_AGAIN:
            continue
        if source is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if parameter.is_flag:
            given.append(parameter.opts[0] if value else parameter.secondary_opts[0])
            continue
        for one in value if isinstance(value, tuple) else (value,):
            given += [parameter.opts[0], str(one)]
    return shlex.join(["hpushim", "prove", *given, *words])
