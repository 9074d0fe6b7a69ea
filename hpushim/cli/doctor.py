"""``hpushim doctor``: what hpushim finds on this machine."""

from __future__ import annotations

import click

from hpushim.cli.output import say, say_json

_COLORS = {"ok": "green", "note": "cyan", "problem": "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> int:
    """Check what hpushim depends on here (torch, CUDA, Gaudi, compiler, environment), and say how to fix problems.

    Exit code 1 when a part of hpushim cannot work here.
    """
    from hpushim.shim.diagnosis import facts

    found = list(facts())
    if as_json:
        say_json([vars(fact) for fact in found])
    else:
        width = max(len(fact.topic) for fact in found)
        for fact in found:
            say(f"{fact.topic:<{width}}  ", nl=False)
            click.secho(f"{fact.state:<8}", fg=_COLORS[fact.state], nl=False)
            say(fact.text)
            if fact.remedy:
                say(f"{'':<{width}}  {'':<8}do: {fact.remedy}")
    return int(any(fact.state == "problem" for fact in found))
