"""Every text that hpushim shows is in one file, where it is reviewed; sentences are short."""

from __future__ import annotations

import re

import messages
import pytest

from codemods.analysis.verdict import sentence
from hpushim.matrix import Row, load


def test_the_list_is_current() -> None:
    assert messages.LIST.read_text(encoding="utf-8") == messages.listed(), (
        "python tests/messages.py"
    )


def test_sentences_are_short() -> None:
    """Texts with figures in their middle count as one; the limits only go down."""
    found = [f"{name}: {size}: {sentence}" for name, size, sentence in messages.long()]
    assert len(found) <= messages.LONG, "\n".join(found)


#: Words that only those who build for Gaudi know; words that refer to a sentence before.
_UNCLEAR = re.compile(r"\b(?:scale-out|side channel|one of 1\.21 or later|that of|those of)\b")
_REFERS = re.compile(r"(?:Its|These|Those|They|That|The others?)\b")
_COMPARED = re.compile(r"\b(?:later|older|up to Gaudi release|1\.2\d)\b")
_SENTENCES = re.compile(r"(?<=[.;:?]) (?=\S)")


@pytest.mark.parametrize("row", [row for row in load().rows if row.rule and row.status != "native"], ids=lambda row: row.name)  # fmt: skip
def test_what_a_message_shows_of_a_note_is_short_and_names_what_it_is_about(row: Row) -> None:
    for note in (row.note, *(limit.text for limit in row.limits)):
        shown = sentence(note)
        _, _, advice = shown.partition(". ")
        assert not _REFERS.match(advice) and not _UNCLEAR.search(shown), shown
        long = [part for part in _SENTENCES.split(shown) if len(messages.words(part)) > messages.LONGEST]  # fmt: skip
        assert not long and len(shown.split()) <= 55, long or shown
        # An old release alone says nothing of the target: it is in brackets, or compared with others.
        assert "release 1.19" not in shown or _COMPARED.search(shown), shown
