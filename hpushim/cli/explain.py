"""``hpushim explain``: the page of a code."""

from __future__ import annotations

import click

from hpushim.cli.output import say


@click.command("explain")
@click.argument("code", required=False)
@click.option("--all", "all_", is_flag=True, help="The catalogue of all codes, as Markdown.")
@click.option(
    "--new",
    metavar="FOLDER",
    help="The next free code of a folder of rules, and a rule's two files to begin with.",
)
@click.option("--rows", is_flag=True, help="Also list the matrix rows that the rule handles.")
def command(code: str | None, all_: bool, new: str | None, rows: bool) -> int:
    """Explain CODE, such as HPU102: what, why, example, what is left alone, sources."""
    from hpushim.engine.rules.catalogue import catalogue, start
    from hpushim.engine.rules.page import explain

    if all_:
        say(catalogue(), nl=False)
        return 0
    if new is not None:
        say(start(new), nl=False)
        return 0
    if code is None:
        raise click.UsageError(
            "name a code, such as `hpushim explain HPU102`, or --all for the list"
        )
    code = code.upper() if code.upper().startswith("HPU") else f"HPU{code}"
    page = explain(code)
    if page is None:
        raise click.UsageError(_unknown(code))
    say(page.shown(), nl=False)
    if rows:
        from hpushim.matrix import load

        say("\n## Matrix rows\n")
        for row in load().by_rule(code):
            say(f"- `{row.name}` → `{row.target or 'none'}` ({row.status})")
    return 0


def _unknown(code: str) -> str:
    import difflib

    from hpushim.engine.rules.catalogue import codes

    near = difflib.get_close_matches(code, codes(), n=3)
    hint = f"near it: {', '.join(near)}" if near else "see `hpushim explain --all`"
    return f"no rule gives {code}; {hint}"
