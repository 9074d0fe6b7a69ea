"""Every text that hpushim shows is in one file, where it is reviewed; sentences are short."""

from __future__ import annotations

import messages


def test_the_list_is_current() -> None:
    assert messages.LIST.read_text(encoding="utf-8") == messages.listed(), (
        "python tests/messages.py"
    )


def test_sentences_are_short() -> None:
    """Texts with figures in their middle count as one; the limits only go down."""
    found = [f"{name}: {size}: {sentence}" for name, size, sentence in messages.long()]
    assert len(found) <= messages.LONG, "\n".join(found)
