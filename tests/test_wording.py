"""The words of docs/glossary.md: the number of replaced words only goes down."""

from __future__ import annotations

import wording


def test_no_more_replaced_words_than_before_and_limits_follow_the_counts() -> None:
    now, allowed = wording.counts(), wording.allowed()
    more = [
        f"{group}: {count} words that docs/glossary.md replaces, {allowed.get(group, 0)} allowed"
        for group, count in now.items()
        if count > allowed.get(group, 0)
    ]
    assert not more, "`python tests/wording.py` lists them with the file and line"
    slack = sum(limit - now.get(group, 0) for group, limit in allowed.items())
    assert slack <= 150, "run: python tests/wording.py --tighten"


def test_the_glossary_names_words_to_replace() -> None:
    assert {"told", "asked", "speaks", "stands", "card", "books"} <= set(wording.replaced())
