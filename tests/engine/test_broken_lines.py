"""Lines that became too long: where they are broken, and where they stay."""

from __future__ import annotations

import re

import pytest

from hpushim.engine.python import lines
from hpushim.engine.python.module import Module
from hpushim.model import Span, Target

#: A text, and the text with its lines broken that are longer than 30; None where they stay.
CASES = [
    ('f(aaaaaaaaaa, bbbbbbbbbb, cccccccccc)\n', 'f(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccccccccc,\n)\n'),
    ('f(aaaaaaaaaa, bbbbbb, ccccccc)\n', None),
    ('f(aaaaaaaaaa, bbbbbb, ccccccc)#\n', None),
    ('x = f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, b)\n', 'x = f(\n    aaaaaaaaaaaaaaaaaaaaaaaaaaaaa,\n    b,\n)\n'),
    ('if f(aaaaaaaaaa, bbbbbbbbbb, ccccc):\n    pass\n', 'if f(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    ccccc,\n):\n    pass\n'),
    ('if f(aaaaaaaaaa, bbbbbbbbbb, ccccc): pass\n', None),
    ('f(aaaaaaaaaa, bbbbbbbbbb, cccccccccc)  # why\n', None),
    ('f(aaaaaaaaaa, bbbbbbbbbb); g(ccccccc)\n', None),
    ('def g():\n\tf(aaaaaaaaaa, bbbbbbbbbb, cccccccc)\n', None),
    ('def g():\n    return f(aaaaaaaaa, bbbbbbbb, c)\n', 'def g():\n    return f(\n        aaaaaaaaa, bbbbbbbb, c\n    )\n'),
    ('f(aaaaaaaaaa, g(bbbbbbb, cc), [d, e])\n', 'f(\n    aaaaaaaaaa,\n    g(bbbbbbb, cc),\n    [d, e],\n)\n'),
    ('f(aaaaaaaaaa, bbbbbbbbbb).to(ccccccc)\n', 'f(\n    aaaaaaaaaa, bbbbbbbbbb\n).to(ccccccc)\n'),
    ('f(a)(bbbbbbbbbbbbbbb, cccccccccccccc)\n', 'f(a)(\n    bbbbbbbbbbbbbbb,\n    cccccccccccccc,\n)\n'),
    ('f(a for aaaaaaaaaaaaaaaaaaa in bbbbbbbb)\n', None),
    ('x = aaaaaaaaaa + bbbbbbbbbbbb + ccccccccc\n', None),
    ('x = aaaaaaaaaa if bbbbbbbbbb else ccccccc\n', 'x = (\n    aaaaaaaaaa\n    if bbbbbbbbbb\n    else ccccccc\n)\n'),
    ('x = (aaaaaaaaaa if bbbbbbbbbb else cccccc)\n', None),
    ('def g():\n    return aaaaaaaa if bbbbb else cccccc\n', 'def g():\n    return (\n        aaaaaaaa\n        if bbbbb\n        else cccccc\n    )\n'),
    ('x = (aaaaaaaaa) if (bbbbbbbbb) else ccccc\n', None),
    ('x = f("ää", aaaaaaaaaa, bbbbbbbbb, ccccc)\n', 'x = f(\n    "ää",\n    aaaaaaaaaa,\n    bbbbbbbbb,\n    ccccc,\n)\n'),
    ('f(aaaaaaaaaa, bbbbbbbbbb, \n  ccccccccccc)\n', None),
    ('f(\n    aaaaaaaaaa, bbbbbbbbbb, cccccccc\n)\n', 'f(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccccccc,\n)\n'),
    ('f(\n    aaaaaaaaaa, bbbbbbbbbb, cccccccc,\n)\n', 'f(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccccccc,\n)\n'),
    ('f(\n    aaaaaaaaaa, bbbbbbbbbb, ccccc  # w\n)\n', None),
    ('f(\n    a for aaaaaaaaaa in bbbbbbbbbbbbbb\n)\n', None),
    ('f(\n    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n)\n', None),
    ('x = [\n    aaaaaaaaaa, bbbbbbbbbb, cccccccc\n]\n', 'x = [\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccccccc,\n]\n'),
    ('f(\n    aaaaaaaaaa, bbbbbbbbbb, cccccccc)\n', None),
    ('f(x,\n    aaaaaaaaaa, bbbbbbbbbb, cccccccc\n)\n', None),
    ('f(\n    ä, aaaaaaaaa, bbbbbbbbbb, cccccc\n)\n', 'f(\n    ä,\n    aaaaaaaaa,\n    bbbbbbbbbb,\n    cccccc,\n)\n'),
    ('f(\n    aaaaaaa, bbbbbbbbbb, ccccccc\n)\n', 'f(\n    aaaaaaa,\n    bbbbbbbbbb,\n    ccccccc,\n)\n'),
    ('f(\n    a, (b), (ccccccccc, dddddddd), eeee\n)\n', 'f(\n    a,\n    (b),\n    (ccccccccc, dddddddd),\n    eeee,\n)\n'),
    ('f(\n    (aaaaaaaa, b), (ccccccccc, dddddddd)\n)\n', 'f(\n    (aaaaaaaa, b),\n    (ccccccccc, dddddddd),\n)\n'),
    ('@d\ndef f(aaaaaaaaaa, bbbbbbbbbb, cccccc):\n    pass\n', None),
    ("x = {'a': aaaaaaaa, 'b': bbbbbbbbbbbbbb}\n", "x = {\n    'a': aaaaaaaa,\n    'b': bbbbbbbbbbbbbb,\n}\n"),
    ('f()(aaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbb)\n', 'f()(\n    aaaaaaaaaaa,\n    bbbbbbbbbbbbbbbbbbbbbb,\n)\n'),
    ('f(aaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbb,)\n', 'f(\n    aaaaaaaaaaaa,\n    bbbbbbbbbbbbbbbbbbb,\n)\n'),
    ('class A(aaaaaaaaaa, bbbbbbbbbb, cccccc):\n    x = 1\n', 'class A(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccccc,\n):\n    x = 1\n'),
    ('with f(aaaaaaaaaa, bbbbbbbbb) as ccccccc:\n    pass\n', None),
    ('for x in f(aaaaaaaaaaaa, bbbbbbbb, cccc):\n    pass\n', 'for x in f(\n    aaaaaaaaaaaa,\n    bbbbbbbb,\n    cccc,\n):\n    pass\n'),
    ('if a:\n    pass\nelif f(aaaaaaaaaa, bbbbbbbbbb, cccc):\n    pass\n', 'if a:\n    pass\nelif f(\n    aaaaaaaaaa,\n    bbbbbbbbbb,\n    cccc,\n):\n    pass\n'),
    ('f(aaaaaaaaaa, bbbbbbbbbb, c)[ddddddddd]\r\n', 'f(\r\n    aaaaaaaaaa, bbbbbbbbbb, c\r\n)[ddddddddd]\r\n'),
    ('def f(\n    a,\n):\n    return (a, bbbbbbbbbbbbbbbbbb, cccccccc)\n', 'def f(\n    a,\n):\n    return (\n        a,\n        bbbbbbbbbbbbbbbbbb,\n        cccccccc,\n    )\n'),
    ('def g():\n    f(\n        aaaaaaaaaa, bbbbbbbbbb, ccccc\n    )\n', 'def g():\n    f(\n        aaaaaaaaaa,\n        bbbbbbbbbb,\n        ccccc,\n    )\n'),
    ('x = [a for a in (aaaaaaaaaaa, bbbbbbbbbbb)]\n', None),
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.f()\n', None),
    ('f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)\n', None),
    ('f(aaaaaaaaaaaaaaaaaaaaaaaaaaa, b).ccccccccccccccccccccccccccccccccccccccc\n', None),
    ('return_ = f(aaaaaaaaaaaaaaaaa) + g(b)\n', None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES, ids=range(len(CASES)))
def test_a_line_is_broken_behind_the_bracket_that_holds_most(text: str, expected: str | None) -> None:  # fmt: skip
    data = text.encode()
    module = Module(text, "a.py", Target(), None)  # type: ignore[arg-type]
    starts = [found.start() for found in re.finditer(rb"^", data, re.MULTILINE) if found.start() < len(data)]  # fmt: skip
    made = lines.broken(module, [Span(at, at) for at in starts], 30)
    for edit in reversed(made):
        assert data[edit.span.start : edit.span.end].decode() == edit.old
        data = data[: edit.span.start] + edit.new.encode() + data[edit.span.end :]
    assert (data.decode() if made else None) == expected
    ends = [Span(0, at) for at in starts[1:]] if len(starts) == 2 and expected else []
    assert [bool(lines.broken(module, [span], 30)) for span in ends] == [True] * len(ends)
    assert lines.broken(module, [], 30) == []


@pytest.mark.parametrize(
    ("lengths", "limit"), [((), 88), ((3, 87), 88), ((89, 3), 89), ((120, 3), 120), ((121,), 120)]
)
def test_how_long_a_line_may_be(lengths: tuple[int, ...], limit: int) -> None:
    assert lines.limit("\n".join("x" * n for n in lengths)) == limit


@pytest.mark.parametrize(
    ("span", "length"),
    [((0, 0), 2), ((3, 3), 4), ((3, 8), 4), ((9, 9), 1), ((1, 4), 4), ((10, 12), 5), ((2, 2), 2)],
)
def test_the_longest_line_that_a_place_touches(span: tuple[int, int], length: int) -> None:
    assert lines.longest("ab\ncdéf\ng\nhijkl".encode(), Span(*span)) == length
