"""``hpushim explain``: the page of a code."""

from __future__ import annotations

import click


@click.command("explain")
@click.argument("code", required=False)
@click.option("--all", "all_", is_flag=True, help="The catalogue of all codes, as Markdown.")
@click.option("--rows", is_flag=True, help="Also list the matrix rows that the rule handles.")
def command(code: str | None, all_: bool, rows: bool) -> int:
    """Explain CODE, such as HPU102: what, why, example, what is left alone, sources."""
    from hpushim.engine.page import catalogue, page_of

    if all_:
        click.echo(catalogue(), nl=False)
        return 0
    if code is None:
        raise click.UsageError(
            "name a code, such as `hpushim explain HPU102`, or --all for the list"
        )
    code = code.upper() if code.upper().startswith("HPU") else f"HPU{code}"
    page = page_of(code)
    if page is None:
        from hpushim.engine.page import codes

        known = codes()
        import difflib

        near = difflib.get_close_matches(code, known, n=3)
        raise click.UsageError(
            f"no rule gives {code}; near: {', '.join(near)}"
            if near
            else f"no rule gives {code}; see `hpushim explain --all`"
        )
    click.echo(page, nl=False)
    if rows:
        from hpushim.matrix import load

        click.echo("\n## Matrix rows\n")
        for row in load().by_rule(code):
            click.echo(f"- `{row.name}` → `{row.target or 'none'}` ({row.status})")
    return 0
