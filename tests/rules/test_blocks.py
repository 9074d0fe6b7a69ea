"""Facts of a project that are read from bytes: where a definition at the left margin ends, what lines of a document ask for."""

from __future__ import annotations

import ast

import pytest

from hpushim.codemods.analysis.project_facts import BLOCK
from hpushim.codemods.edits.floor import documented

#: Texts whose lines stand at the left margin, and what only looks like one.
TEXTS = {
    "three quotes": "'''a\nb'''",
    "three double quotes": 'r"""a\nb"""',
    "with quotes inside": '"""a "b\n\'\'\' c""d\ne"""',
    "with an escape": '"""a\\"""\nb\\\n"""',
    "ends at the margin": "f'''\n{x}\n'''",
    "a quote in a comment": '1  # it\'s """ here',
    "three quotes in a text": '\'"""\'',
    "an empty text": "'' + \"\"",
    "goes on in a list": "[\n    '''a\nb''',\n]",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("head", ["def f(x):", "@once\nasync def f(x):", "class F:"])
def test_a_text_at_the_margin_ends_no_definition(head: str, text: str) -> None:
    code = f"\n{head}\n    a = {text}\n    inner(a)\n\nouter()\n\n\ndef g():\n    return 1\n"
    ast.parse(code)
    blocks = [found[0].decode() for found in BLOCK.finditer(code.encode())]
    assert len(blocks) == 2
    assert "inner(a)" in blocks[0] and "outer" not in "".join(blocks)


@pytest.mark.parametrize("part", ['"""', "'''", "'\\", '"\\', "'", '"', "'''\\", "# '\n  "])
def test_texts_that_never_end_are_gone_through_once(part: str) -> None:
    """A second look from each of these quotes would take minutes."""
    data = b"\ndef f():\n  x = " + part.encode() * 100_000 + b"\n"
    assert len([*BLOCK.finditer(data)]) == 1


@pytest.mark.parametrize(
    "part", ["70.01, ", "a, ", "a == 1.2, ", "pip x ", "- ", "torch, ", "torch 1, "]
)
def test_lines_of_a_document_are_gone_through_once(part: str) -> None:
    """A row of a table hung for minutes."""
    assert [*documented(f"PyTorch\n{part * 20_000}\n")] == []
