"""``hpushim explain``: the page of a code, or the codes that mention some words."""

from __future__ import annotations

import re

import click

from hpushim.cli.output import say

_CODE = re.compile(r"(?:hpu)?(\d{3})", re.IGNORECASE)
#: What somebody types who means a code.
_NEARLY = re.compile(r"hpu.*|[a-z]{3}[_-]?\d{3}", re.IGNORECASE)


def _begun(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """The codes that begin so, for the completion of a shell."""
    from hpushim.engine.rules.catalogue import codes

    return [code for code in codes() if code.startswith(begun.upper())]


@click.command("explain")
@click.argument("words", nargs=-1, metavar="[CODE | WORDS...]", shell_complete=_begun)
@click.option("--all", "all_", is_flag=True, help="The catalogue of all codes, as Markdown.")
@click.option(
    "--new",
    metavar="FOLDER",
    help="The next free code of a folder of rules, and a rule's two files to begin with.",
)
@click.option(
    "--rows",
    is_flag=True,
    help="Also list the matrix rows that the rule handles, with exceptions and releases.",
)
def command(words: tuple[str, ...], all_: bool, new: str | None, rows: bool) -> int:
    """Explain CODE, such as HPU102: what, why, example, what is left alone, sources.

    With WORDS, such as `mixed precision`, list the codes whose titles, messages and pages mention them.

    Exit code 1 when no page mentions them.
    """
    from hpushim.engine.rules.catalogue import catalogue, start

    if all_:
        say(catalogue(), nl=False)
        return 0
    if new is not None:
        say(start(new), nl=False)
        return 0
    if not words:
        raise click.UsageError(
            "name a code, such as `hpushim explain HPU102`, words, such as `hpushim explain mixed precision`, "
            "or --all for the list"
        )
    code = _CODE.fullmatch(words[0]) if len(words) == 1 else None
    if code is None and not (len(words) == 1 and _NEARLY.fullmatch(words[0])):
        return _searched(" ".join(words))
    return _explained(f"HPU{code[1]}" if code else words[0].upper(), rows)


def _explained(code: str, rows: bool) -> int:
    """The page of a code; where it is the page of several, what it says of this one comes first."""
    from hpushim.engine.rules.finding_pages import entry, passages
    from hpushim.engine.rules.page import explain

    page, about = explain(code), entry(code)
    if page is None or about is None:
        raise click.UsageError(_unknown(code))
    if not page.title.startswith((f"{code} ", f"{code}–")) or code not in page.title:
        say(f"{code} `{about.code.name}` ({about.code.severity})\n")
        for severity, reason in about.code.lower.items():
            say(f"{severity} where {reason}\n")
        for passage in passages(explain(code, cases=True) or page, code):
            say(f"{passage}\n")
        say(f"The page that it is on: {page.title}\n")
    say(page.shown(), nl=False)
    if rows:
        from hpushim.matrix import load

        say("\n## Matrix rows\n")
        for row in load().by_rule(code):
            target = f", use `{row.target}`" if row.target else ""
            say(f"- `{row.name}` ({row.status}{target}): {row.note}")
    return 0


def _searched(words: str) -> int:
    from hpushim.engine.rules.finding_pages import by_meaning

    found = by_meaning(words)
    for about in found:
        say(f"{about.number}  {about.code.name}  ({about.code.severity}): {about.first}")
    if not found:
        say(f"no page mentions {words!r}; `hpushim explain --all` lists all codes", err=True)
        return 1
    say(f"`hpushim explain {found[0].number}` opens a page; `hpushim api NAME` looks up a name")
    return 0


def _unknown(code: str) -> str:
    import difflib

    from hpushim.engine.rules.catalogue import codes, reported_at_run_time
    from hpushim.engine.rules.finding_pages import entry

    if code in reported_at_run_time():
        return f"{code} is reported while a program runs, and has no page; look the name in its message up with `hpushim api`"
    near = difflib.get_close_matches(code, codes(), n=3)
    if not near:
        return f"no rule gives {code}; `hpushim explain --all` lists all codes, `hpushim explain WORDS` searches"
    named = ", ".join(f"{one} {about.code.name}" for one in near if (about := entry(one)))
    return f"no rule gives {code}; near it: {named}"
