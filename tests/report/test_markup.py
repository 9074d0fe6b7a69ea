"""A sentence in Markdown: what is between two backticks is code, whatever their number."""

from __future__ import annotations

import pytest

from hpushim.report.markup import prose


@pytest.mark.parametrize("ticks", range(12))
def test_every_second_piece_is_code_and_a_last_backtick_opens_nothing(ticks: int) -> None:
    pieces = [f"<{n}>" for n in range(ticks + 1)]
    even = ticks - ticks % 2
    shown = [f"`{piece}`" if n % 2 else piece for n, piece in enumerate(pieces[: even + 1])]
    rest = "".join(f"\\`{piece}" for piece in pieces[even + 1 :])
    assert prose("`".join(pieces)) == "".join(shown) + rest
