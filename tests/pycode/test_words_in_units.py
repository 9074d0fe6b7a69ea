"""What the index finds by a word is what the tree holds, whatever stands between the word and the sign that makes it what it is."""

from __future__ import annotations

import ast

import pytest

from hpushim.pycode.source import Source
from hpushim.pycode.words import Use, Words

#: What may stand between two tokens, where a bracket is open.
BETWEEN = ("", " ", "  ", "\n    ", "\t", "\f", " \\\n", "  # a note\n    ", "\r\n")
FORMS = {
    "an attribute": "f(x{0}.{0}cuda)",
    "an attribute of a call": "f(x(){0}.{0}cuda{0}.{0}to)",
    "an attribute of a number": "f(1.{0}.{0}cuda)",
    "in an f-string": "f(f'{{x.cuda}} {{cuda}} {{cuda(1)}} {{x.cuda(cuda=1)}}')",
    "a call": "f(cuda{0}({0}x))",
    "a call of an attribute": "f(x{0}.{0}cuda{0}({0}x))",
    "a keyword": "f(g{0}({0}cuda{0}={0}x))",
    "a keyword of a class": "class A({0}B{0},{0}cuda{0}={0}x):\n    pass",
    "a decorator": "@(x{0}.{0}cuda{0}({0}cuda{0}={0}1))\ndef f():\n    pass",
    "a name": "f({0}cuda{0})",
    "a comparison": "f(cuda{0}=={0}x{0}.{0}cuda)",
    "a string": "f('it is cuda'{0}, cuda)",
    "no string": "f(cuda{0}, 'it is not')",
    "a slice": "x[cuda{0}:{0}cuda{0}({0}1):x{0}.{0}cuda]",
}


@pytest.mark.parametrize("others", [0, 20], ids=["searched", "by table"])
@pytest.mark.parametrize("between", BETWEEN, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_what_a_word_is_in_is_found(form: str, between: str, others: int) -> None:
    text = f"a = b\n{FORMS[form].format(between)}\nc = d\n"
    source = Source(text + "".join(f"other{number}\n" for number in range(others)))
    for number in range(others):
        source.index.names(f"other{number}")
    found = {
        "attributes": source.index.attributes("cuda"),
        "calls": source.index.calls("cuda"),
        "keywords": source.index.keywords("cuda"),
        "strings": source.index.strings("cuda"),
        "names": source.index.names("cuda"),
    }
    assert {name: set(nodes) for name, nodes in found.items()} == _held(source.tree)


def _held(tree: ast.AST) -> dict[str, set[ast.AST]]:
    found: dict[str, set[ast.AST]] = {
        name: set() for name in ("attributes", "calls", "keywords", "strings", "names")
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="cuda"):
                found["attributes"].add(node)
            case ast.Call(func=ast.Attribute(attr="cuda") | ast.Name(id="cuda")):
                found["calls"].add(node)
            case ast.keyword(arg="cuda"):
                found["keywords"].add(node)
            case ast.Constant(value=str() as value) if "cuda" in value:
                found["strings"].add(node)
            case ast.Name(id="cuda"):
                found["names"].add(node)
    return found


def test_what_is_no_word_is_nowhere() -> None:
    index = Source("f(x)()\n(lambda: 0)()\nx.y(**z)\n").index
    for word in ("", "a b", "1"):
        assert not (index.calls(word) or index.attributes(word) or index.keywords(word))


@pytest.mark.parametrize(("use", "first", "at"), [("attribute", 1, 2), ("call", 2, 2), ("keyword", 10, 10)])  # fmt: skip
def test_only_what_lies_whole_in_a_part_is_found_there(use: Use, first: int, at: int) -> None:
    """Every part of a text: from the sign before the word, or the word, to behind the word."""
    data = b"a.cuda(x) cuda=1"
    words = Words(data)
    for start in range(len(data) + 1):
        for end in range(start, len(data) + 1):
            found = words.may_be(b"cuda", use, start, end)
            assert found is (start <= first and at + 4 <= end), (start, end)
