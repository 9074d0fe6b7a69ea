"""Places, names and scopes of a parsed module, the same on every Python."""

from __future__ import annotations

import ast
import gc
import random
import re
import sys
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpushim.engine.base import text as base_text
from hpushim.engine.base.text import Offsets, Text
from hpushim.engine.context import Context
from hpushim.engine.python.module import Module
from hpushim.matrix import load
from hpushim.model import Target
from hpushim.pycode.index import Index
from hpushim.pycode.source import Source


def module(text: str) -> Module:
    return Module(text, "a.py", Target(), None)  # type: ignore[arg-type]


def names(m: Module, name: str) -> list[ast.Name]:
    return m.index.names(name)


def nodes(m: Module) -> list[ast.AST]:
    """Every node that has a place, in source order."""
    found = [n for n in ast.walk(m.tree) if hasattr(n, "lineno")]
    for node in found:
        m.parent(node)  # before Python 3.12 it puts the parts of f-strings in their places
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))  # type: ignore[attr-defined]


def last(m: Module, name: str = "q") -> str | None:
    """What the last use of a name means."""
    return m.qualified(names(m, name)[-1])


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("import torch as q\nq", "torch"),
        ("import torch.cuda as q\nq", "torch.cuda"),
        ("from torch import cuda as q\nq", "torch.cuda"),
        ("from . import q\nq", ".q"),
        ("from ..a import q\nq", "..a.q"),
        ("import torch\nq = torch.cuda\nq", "torch.cuda"),
        ("import torch\nt = torch\nq = t.cuda.x\nq", "torch.cuda.x"),
        ("q", "builtins.q"),
        ("def f(q): q", None),
        ("import torch as q\ndef f(q=1): q", None),
        ("import torch as q\nclass A:\n  q = 1\n  def f(self): q", "torch"),
        ("class A:\n  import torch as q\n  q", "torch"),
        ("import torch as q\nq = 1\nq", None),
        ("try:\n  import a as q\nexcept ImportError:\n  q = None\nq", "a"),
        ("try:\n  import a as q\nexcept ImportError:\n  import b as q\nq", None),
        ("import torch as q\ndef f():\n  global q\n  q = 1\nq", None),
        ("def f():\n  import a as q\n  def g():\n    nonlocal q\n    q", "a"),
        ("q = 1\ndef f():\n  import a as q\n  def g():\n    global q\n    q", None),
        ("import a as q\n[q for q in x]", None),
        ("import a as q\n[x for x in q]", "a"),
        ("import a as q\n[y := 1 for q in z]\nq", "a"),
        ("import a as q\n[(q := 1) for x in z]\nq", None),
        ("q = r\nr = q\nq", None),
        ("import a\nq = a.b\nr = q\nq = r\nq", "a.b"),
        ("import a\nq = a.b\nq = unknown().c\nq", None),
        ("import a\nq = a.b\nq = other\ndef f(other): pass\nq", None),
        ("import a as q\ndel q\nq", None),
        ("import a as q\nfor q in x: pass\nq", None),
        ("import a as q\nwith x as (q, r): pass\nq", None),
        ("import a as q\nlambda q: q", None),
        ("import a as q\nlambda x=q: x", "a"),
        ("import a as q\nmatch x:\n  case {'k': 1, **q}: q", None),
    ],
)
def test_what_a_name_means(text: str, meaning: str | None) -> None:
    assert last(module(text)) == meaning


_REPLACES = (
    "torch.cuda.f = mine",
    "del torch.cuda.f",
    "torch.cuda.f = q",
    "def g(): torch.cuda.f = mine",
    "setattr(torch.cuda, 'f', mine)",
    "monkeypatch.setattr(torch.cuda, 'f', mine)",
)
_KEEPS = ("torch.cuda.g = mine", "other.f = mine", "setattr(torch.cuda, name, mine)", "torch.cuda.f()")  # fmt: skip


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("line", [*_REPLACES, *_KEEPS])
def test_what_keeps_a_function_that_the_file_replaces_is_not_its_name(
    line: str, place: str
) -> None:
    kept = "q = torch.cuda.f"
    m = module("\n".join(("import torch", *((line, kept) if place == "before" else (kept, line)), "q")))  # fmt: skip
    assert last(m) == ("torch.cuda.f" if line in _KEEPS else None)


_LOOKS_UP = (
    "import torch as t\n    return getattr(t, name)",
    "if self.t is None:\n      import torch\n      self.t = torch\n    return getattr(self.t, name)",
    "import importlib\n    return getattr(importlib.import_module('torch'), name)",
)
_ANSWERS = ("return self.table[name]", "return getattr(self.other, name)", "import torch\n    if c: return None\n    return getattr(torch, name)")  # fmt: skip


@pytest.mark.parametrize("made", ["q = Lazy()", "q = Lazy('torch', eager=False)", "r = Lazy()\nq = r"])  # fmt: skip
@pytest.mark.parametrize("body", [*_LOOKS_UP, *_ANSWERS])
def test_an_object_that_looks_every_name_up_in_a_package_stands_for_it(body: str, made: str) -> None:  # fmt: skip
    m = Source(f"class Lazy:\n  t = None\n  def __getattr__(self, name):\n    {body}\n{made}\nq.x", ("torch",))  # fmt: skip
    wanted = body in _LOOKS_UP
    assert m.qualified(m.parent(m.index.names("q")[-1])) == ("torch.x" if wanted else None)
    assert ("torch" in m.names.of_name(m.global_scope, "q")) == wanted


def test_a_name_may_mean_several_things() -> None:
    m = module("try:\n  import a as q\nexcept ImportError:\n  import b as q\nq.x")
    use = m.parent(names(m, "q")[-1])
    assert m.possible_names(use) == {"a.x", "b.x"}


def test_values_follow_assignments_and_end() -> None:
    m = module("a = 'x' if c else b\nb = a or 'y'\nq = a\nq")
    values = m.values(names(m, "q")[-1])
    assert {v.value for v in values if isinstance(v, ast.Constant)} == {"x", "y"}
    tangled = "\n".join(f"n{i} = n{j}" for i in range(8) for j in range(8) if i != j)
    m = module(tangled + "\nq = n0\nq")
    assert all(isinstance(v, ast.Name) for v in m.values(names(m, "q")[-1]))
    assert last(m) is None


def test_nodes_have_their_parents_whatever_is_asked_first() -> None:
    text = (
        "@a(1)\nclass B(c):\n  x: int = f(y, *z, k=w)\n  async def g(self, p=[1]): return {**p}\n"
    )
    for seed in range(20):
        m = module(text)
        every = list(ast.walk(m.tree))
        random.Random(seed).shuffle(every)
        for node in every:
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, (ast.expr_context, ast.operator)):
                    assert m.parent(child) is node


def test_every_kind_of_node_is_reached() -> None:
    """Against the tree itself: nothing that holds a place is left out, whatever the syntax."""
    import pathlib

    for path in pathlib.Path(ast.__file__).parent.glob("[a-d]*.py"):
        m = module(path.read_text(encoding="utf-8"))
        for node in ast.walk(m.tree):
            for child in ast.iter_child_nodes(node):
                if hasattr(child, "lineno"):
                    assert m.parent(child) is node


WORDS = """import w as q, q as w
@w(q=w.w)
def w(a: w = w("w", w=w)) -> w:
    x = [w for w in w if w]; w.w(w)(w)
    try: pass
    except w as w: del w
    match w:
        case w(w=1) | {"w": w.w} if w: lambda w: w
    with w as (w, x.w): yield w
    global y
    return f"{w:{w}} w" "w"
class w(w, w=w): w: w = -w
word = _w = w2 = b"w"
"""


def test_words_are_found_without_walking_the_rest() -> None:
    m = module(WORDS)
    every = list(ast.walk(ast.parse(WORDS)))

    def places(nodes: Iterable[ast.AST]) -> list[tuple[int, int]]:
        return sorted((n.lineno, n.col_offset) for n in nodes)  # type: ignore[attr-defined]

    assert len(m.index.names("w")) == len(
        [n for n in every if isinstance(n, ast.Name) and n.id == "w"]
    )
    assert places(m.index.attributes("w")) == places(
        n for n in every if isinstance(n, ast.Attribute) and n.attr == "w"
    )
    assert places(m.index.keywords("w")) == places(
        n for n in every if isinstance(n, ast.keyword) and n.arg == "w"
    )
    assert len(m.index.calls("w")) == 3
    assert [n.value for n in m.index.strings("w")] == ["w", "w", " ww"]
    assert [n.name for n in m.index.definitions("w")] == ["w", "w"]
    assert m.index.names("nothing") == []


@given(st.randoms(use_true_random=False))
def test_the_index_is_the_same_in_whatever_order_it_is_asked(rng: random.Random) -> None:
    asked = ["w", "q", "x", "word", "y", "a"]
    rng.shuffle(asked)
    m, whole = module(WORDS), module(WORDS)
    for node in ast.walk(whole.tree):
        whole.parent(node)
    for word in asked:
        found = [(n.lineno, n.col_offset) for n in m.index.names(word)]
        assert found == [(n.lineno, n.col_offset) for n in whole.index.names(word)]
        kinds = [type(m.scope(n).node) for n in m.index.names(word)]
        assert kinds == [type(whole.scope(n).node) for n in whole.index.names(word)]


FSTRINGS = [
    "f'cuda:{q}!'",
    "'a' f'b{q}c' 'd' f'{q:>{q}}' 'e'",
    "f'{q.b(1)} {q}''z'",
    'f"""é\n{  q.z  !r:10} {q=}\n{\n q }"""',
    "'é' f'{q}{q}'",
    "f'{{q}} {q!r} {q:%H:%M} {q[\"a:b\"]} {q != q} {(lambda: q)()}'",
    "f'{q, q} {(q)} {{}} {[q for q in q]}'",
    "rf'\\{q}\\N{q}'",
    "f'\\N{BULLET} {q}'",
    "(f'{q}'\n  # c {q}\n  f'{q}')",
    "f'{f\"{q}\"}'",
    'f\'{", ".join(f"{q:.3f}" for q in q)}\'',
    "f'{q:{q}.{q}}'",
]


@pytest.mark.parametrize("text", FSTRINGS)
def test_places_inside_fstrings(text: str) -> None:
    m = module(f"é = {text}\n")
    found = [node for node in nodes(m) if isinstance(node, ast.Name)]
    assert len(found) > 1
    for node in found:
        assert m.source(node) == node.id
    for node in nodes(m):
        if isinstance(node, ast.FormattedValue):
            assert m.source(node).startswith("{") and m.source(node).endswith("}")
        if isinstance(node, ast.Constant) and node.value == "cuda:":
            assert m.source(node) == "cuda:"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the grammar of Python 3.12")
def test_places_inside_fstrings_with_their_own_quotes() -> None:
    m = module('x = f"{q["a"]} {f"{q}"}" "b"\n')
    assert [m.source(n) for n in names(m, "q")] == ["q", "q"]
    joined = next(n for n in nodes(m) if isinstance(n, ast.JoinedStr))
    assert [m.source(span) for span in m.string_tokens(joined)] == ['f"{q["a"]} {f"{q}"}"', '"b"']


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_string_tokens(newline: str) -> None:
    text = "x = ('é' # 'c'\n  r\"b\\\"\"  \\\n  f'{y}'\n 'd\\\ne' '''f\ng''')\n".replace(
        "\n", newline
    )
    m = module(text)
    value = next(n for n in nodes(m) if isinstance(n, ast.JoinedStr))
    expected = ["'é'", 'r"b\\""', "f'{y}'", f"'d\\{newline}e'", f"'''f{newline}g'''"]
    assert [m.source(span) for span in m.string_tokens(value)] == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_places_do_not_depend_on_newlines(newline: str) -> None:
    text = "a = 1\n\x0cé = b'''\n'''; q\n\n  \nif q:\n\tq  # \u2028 no line end\n".replace(
        "\n", newline
    )
    m = module(text)
    assert [m.source(n) for n in names(m, "q")] == ["q", "q", "q"]
    assert m.newline == newline
    assert [m.position(m.span(n).start) for n in names(m, "q")] == [(3, 6), (6, 4), (7, 2)]
    assert m.indent(names(m, "q")[-1]) == "\t"
    assert "".join(m.source(m.line_span(n + 1)) for n in range(text.count(newline))) == text


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(1, 9), st.booleans())
def test_offsets_and_columns(text: str, step: int, backwards: bool) -> None:
    """Whatever is counted at a time, and in whatever order is asked."""
    places = range(len(text) + 1)[:: -1 if backwards else 1]
    sizes = {n: len(text[:n].encode()) for n in places}
    lines = Text(text, "a.yaml", Target(), None)  # type: ignore[arg-type]
    with patch.object(base_text, "_STEP", step):
        offset = Offsets(text)
        assert {n: offset(n) for n in places} == sizes
        found = {n: lines.position(sizes[n])[1] for n in places}
    ends = {m.end() for m in re.finditer("\r\n|\r|\n", text)} | {0}
    assert found == {n: n - max(end for end in ends if end <= n) + 1 for n in places}


def test_scopes_of_defaults_decorators_and_bases() -> None:
    m = module("q = 1\n@q\ndef f(a: q = q) -> q:\n  q = 2\n  class C(q, k=q):\n    q = 3\n    q\n")
    scopes: list[Any] = [type(m.scope(n).node).__name__ for n in names(m, "q")]
    assert scopes == ["Module"] * 5 + ["FunctionDef"] * 3 + ["ClassDef"] * 2


def test_a_text_is_found_inside_words_after_it_was_asked_for_as_a_word() -> None:
    """``names("A")`` walks fewer statements than ``strings("A")`` needs."""
    found = module('A = 1\nb = "A_LONG"\n')
    assert len(found.index.names("A")) == 1
    assert [node.value for node in found.index.strings("A")] == ["A_LONG"]
    assert len(found.index.names("A")) == 1


def test_many_words_are_found_by_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search goes through the whole text: as many of them as there are names take time by the square."""
    searched: list[bytes] = []
    opened = Index._open

    def counted(index: Index, word: bytes, use: Any, *, whole: bool) -> None:
        searched.append(word)
        opened(index, word, use, whole=whole)

    monkeypatch.setattr(Index, "_open", counted)
    m = module("".join(f"n{n} = {n}\n" for n in range(2000)))
    assert all(len(names(m, f"n{n}")) == 1 for n in range(2000))
    assert len(searched) < 300


PLACED = """\
import torch
@wrap(
    mark,
)
class Model(Base):
    size = mark
    # mark
    @property
    def forward(self, x=mark):
        with mark:
            return [mark for _ in x]

    async def other(self): return mark
    if mark:
        def inner(self):
            match mark:
                case 1 if mark:
                    def deep():
                        try:
                            mark
                        except mark:
                            # mark
                            pass
# mark
def f(): pass; mark
mark
"""


def test_a_place_knows_its_function_by_its_lines() -> None:
    """Decorators are outside, defaults inside; a comment belongs to what its line is within."""
    m = module(PLACED)
    around = [m.surroundings(match.start()) for match in re.finditer("mark", PLACED)]
    found = [function for function, _ in around]
    inner, deep = "Model.inner", "Model.inner.deep"
    forward = "Model.forward"
    assert found == [
        *("", "Model", "Model", forward, forward, forward, "Model.other", "Model"),
        *(inner, inner, deep, deep, deep, "", "f", ""),
    ]
    assert m.surroundings(0) == module("").surroundings(0) == ("", False)
    under = [number for number, (_, conditional) in enumerate(around) if conditional]
    assert under == list(range(8, 13))  # not the test itself, which always runs
    main = module("if __name__ == '__main__':\n    x\n    if y:\n        z\n")
    assert [main.surroundings(main.data.index(name))[1] for name in (b"x", b"y", b"z")] == [False, False, True]  # fmt: skip


def test_a_file_goes_without_the_collector() -> None:
    """What points back at its file is emptied: a tree that waits for the collector costs as much again."""
    from hpushim.engine.one_file import examine

    unit = "def f{0}(x):\n    y = x.cuda()\n    if y.is_cuda:\n        return [y, {0}]\n    return torch.device('cuda')\n"
    text = "import torch\nfrom .backend import torch as other\n\n" + "".join(map(unit.format, range(200)))  # fmt: skip
    examine(text, "python", "a.py", Context(Target(), load()))
    gc.collect()
    gc.disable()
    try:
        examine(text, "python", "a.py", Context(Target(), load()))
        left = gc.collect()
    finally:
        gc.enable()
    assert left < 200
