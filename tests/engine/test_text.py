"""Places in a text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hpushim.engine.base.text import Text
from hpushim.matrix import load
from hpushim.model import Target

MATRIX = load()


@given(st.text(st.sampled_from("ab \n\r\té漢𝄞")), st.data())
def test_a_place_is_counted_in_characters(text: str, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(text)))
    made = Text(text, "a.txt", Target(), MATRIX)
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n")
    if text[index - 1 : index + 1] != "\r\n":
        line, column = made.position(len(text[:index].encode()))
        assert line == before.count("\n") + 1
        assert column == len(before.rpartition("\n")[2]) + 1
