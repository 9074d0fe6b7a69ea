"""The words of docs/glossary.md: the number of replaced words only goes down."""

from __future__ import annotations

import pytest
import wording

NOW = wording.counts()


@pytest.mark.parametrize("group", sorted(NOW))
def test_no_more_replaced_words_than_before(group: str) -> None:
    limit = wording.allowed().get(group, 0)
    assert NOW[group] <= limit, (
        f"{group}: {NOW[group]} words that docs/glossary.md replaces, {limit} allowed; "
        "`python tests/wording.py` lists them with the file and line"
    )


def test_the_limits_follow_the_counts() -> None:
    slack = sum(limit - NOW.get(group, 0) for group, limit in wording.allowed().items())
    assert slack <= 150, "run: python tests/wording.py --tighten"


def test_the_glossary_names_words_to_replace() -> None:
    assert {"told", "asked", "speaks", "stands", "card", "books"} <= set(wording.replaced())
