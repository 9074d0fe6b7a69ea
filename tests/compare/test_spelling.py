"""Whether a value may be a device's text, by its name: names × questions."""

from __future__ import annotations

import ast

import pytest

from hpushim.compare import Comparison, find, spelling
from hpushim.pycode.source import Source

#: Expressions, with whether each may be such a text though nothing shows it, and whether it may be a table.
SPELLED = {
    "given": (True, True),
    "args.given": (True, True),
    "str(given)": (True, True),
    "repr(args.given)": (True, True),
    "str(given, 'ascii')": (False, True),
    "str()": (False, True),
    "given.lower()": (True, None),
    "given.strip().lower()": (True, None),
    "str(given).lower()": (True, None),
    "given.pop()": (False, None),
    "given().lower()": (False, None),
    "given['kind']": (True, True),
    "given['kind']['of']": (True, True),
    "given['kind'].strip()": (True, None),
    "given[kind]": (False, True),
    "given[0]": (False, True),
    "given()['kind']": (False, True),
    "kind(given)": (False, True),
    "(3)": (False, False),
    "'a' + 'b'": (False, False),
    "[given]": (False, False),
}
ASKED = ["{}.startswith('cuda')", "'cuda' in {}", "{}.find('cuda') >= 0"]


def _node(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize("text", SPELLED)
def test_a_spelling(text: str) -> None:
    word, table = SPELLED[text]
    assert spelling.is_word(_node(text)) is word
    assert spelling.is_shown(_node(text)) is (text in ("str(given)", "repr(args.given)"))
    if table is not None:
        assert spelling.may_be_table(_node(text)) is table


@pytest.mark.parametrize("name", sorted(spelling.OPERATIONS)[:4])
def test_a_text_that_is_cut_is_no_table(name: str) -> None:
    assert not spelling.may_be_table(_node(f"given.{name}('x')"))
    assert spelling.may_be_table(_node("given.made('x')"))


@pytest.mark.parametrize("text", ["('cuda', 'mps')", "()", "'cuda'", "['cuda']", "kinds"])
def test_elements(text: str) -> None:
    found = [ast.unparse(one) for one in spelling.elements(_node(text))]
    assert found == (list(map(repr, ast.literal_eval(text))) if text.startswith("(") else [ast.unparse(_node(text))])  # fmt: skip


@pytest.mark.parametrize("text", SPELLED)
@pytest.mark.parametrize("asked", ASKED)
def test_a_word_is_told_and_nothing_else(text: str, asked: str) -> None:
    found: list[Comparison] = find(Source(f"def f(given, args, kind):\n    return {asked.format(text)}\n"))  # fmt: skip
    assert [one.sure for one in found] == [False] * SPELLED[text][0]
