"""Changes of nodes, made by libcst: what was asked for, and not a byte beside it."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpushim.engine.base.edits import splice
from hpushim.engine.python import imports
from hpushim.engine.python.changes import Change, Define, Import, Insert, Remove, Rename, Replace
from hpushim.engine.python.module import Module
from hpushim.engine.python.proof import unproven
from hpushim.engine.python.rewrite import NotRewritable, rewrite
from hpushim.model import Target


def module(text: str) -> Module:
    return Module(text, "a.py", Target(), None, ambient=("lib",))  # type: ignore[arg-type]


def made(m: Module, *changes: Change) -> str:
    """The text after some changes; it parses."""
    edits, _ = rewrite(m, imports.resolved(m, changes))
    after = splice(m.data, edits).decode()
    ast.parse(after)
    return after


def node(m: Module, source: str, kind: type[ast.AST] = ast.AST, nth: int = 0) -> Any:
    """The ``nth`` node of a class that is written like this."""
    found = [n for n in ast.walk(m.tree) if isinstance(n, kind) and hasattr(n, "lineno")]
    mine = [n for n in found if m.parent(n) and m.source(n) == source]
    return mine[nth]


# -- arguments, elements, items ---------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "gone", "after"),
    [
        ("f(a, gone=1, b=2)", ["gone=1"], "f(a, b=2)"),
        ("f(gone=1)", ["gone=1"], "f()"),
        ("f( gone=1 )", ["gone=1"], "f()"),
        ("f(a, gone=1,)", ["gone=1"], "f(a,)"),
        ("f(gone=1, *a)", ["gone=1"], "f(*a)"),
        ("f(x, y, **k)", ["x", "y"], "f(**k)"),
        (
            "f(a,  # of a\n  gone=[1, (2)], # gone\n  z=1,\n)",
            ["gone=[1, (2)]"],
            "f(a,  # of a\n  z=1,\n)",
        ),
        ("f(\n    a,  # of a\n    gone=1,  # gone\n)", ["gone=1"], "f(\n    a,  # of a\n)"),
        ("f(a, gone=1,\n  # of b\n  b=2)", ["gone=1"], "f(a,\n  # of b\n  b=2)"),
        ("f(a, gone=1,  # of a\n  b=2)", ["gone=1"], "f(a,  # of a\n  b=2)"),
        ("f(a,\n  gone=1, b=2)", ["gone=1"], "f(a,\n  b=2)"),
        ("f(\n  gone=1,  # gone\n  # of b\n  b=2)", ["gone=1"], "f(\n  # of b\n  b=2)"),
        (
            "f(a,\n  # of a\n  gone=1,\n  # of b\n  b=2)",
            ["gone=1"],
            "f(a,\n  # of a\n  # of b\n  b=2)",
        ),
        ("f(\n    gone=1,  # gone\n    a=2,\n)", ["gone=1"], "f(\n    a=2,\n)"),
        ("f(\n    a,\n    gone=1\n)", ["gone=1"], "f(\n    a\n)"),
        (
            "f(\n    a, gone=1, more=2,\n    # of z\n    z=1,\n)",
            ["gone=1", "more=2"],
            "f(\n    a,\n    # of z\n    z=1,\n)",
        ),
        (
            "f(\n    a,  # of a\n    gone=1,  # gone\n    # of z\n    z=1)",
            ["gone=1"],
            "f(\n    a,  # of a\n    # of z\n    z=1)",
        ),
        ("f(a,\n  gone=1, z=1)", ["gone=1"], "f(a,\n  z=1)"),
        ("x = [a, b, c]", ["a", "c"], "x = [b]"),
        ("from m import (\n    a,  # one\n    b,\n)\n", ["a"], "from m import (\n    b,\n)\n"),
        ("import a, b as c", ["a"], "import b as c"),
        ("with a as b, c: pass", ["c"], "with a as b: pass"),
        ("@d\n@e(1)\ndef f(): pass", ["d"], "@e(1)\ndef f(): pass"),
        ("a; gone(); b", ["gone()"], "a; b"),
        ("a; gone()", ["gone()"], "a"),
        ("if a: gone(); b", ["gone()"], "if a: b"),
    ],
)
def test_items_go_with_their_commas(before: str, gone: list[str], after: str, newline: str) -> None:
    m = module(before.replace("\n", newline))
    changes = []
    for text in gone:
        found = node(m, text)
        statement = m.parent(found)
        alone = isinstance(statement, ast.Expr) and isinstance(found, ast.Call)
        changes.append(Remove(statement if alone else found))
    if before.startswith("with"):
        changes = [Remove(m.tree.body[0].items[1])]  # type: ignore[attr-defined]
    assert made(m, *changes) == after.replace("\n", newline)


@pytest.mark.parametrize(
    ("before", "target", "new", "after"),
    [
        ("y = not x", "x", "a == b", "y = not a == b"),
        ("y = -x", "x", "a + b", "y = -(a + b)"),
        ("y = x.z", "x", "a or b", "y = (a or b).z"),
        ("y = x * 2", "x", "a + b", "y = (a + b) * 2"),
        ("y = 2 - x", "x", "a - b", "y = 2 - (a - b)"),
        ("y = x == z", "x", "a == b", "y = (a == b) == z"),
        ("y = x if c else d", "x", "a if b else c", "y = (a if b else c) if c else d"),
        ("y = d if c else x", "x", "a if b else c", "y = d if c else a if b else c"),
        ("f(x)", "x", "a if b else c", "f(a if b else c)"),
        ("y = (x)", "x", "a + b", "y = (a + b)"),
        ("y = (x).z", "x", "a + b", "y = (a + b).z"),
        ("f'{x}'", "x", "a.b", "f'{a.b}'"),
        ("f'{x:>{w}} {v}'", "w", "a", "f'{x:>{a}} {v}'"),
        ("a[x, 1:x]", "x", "y", "a[y, 1:x]"),
        ("a[1:x]", "x", "y + 1", "a[1:y + 1]"),
        ("class A(B, m=x): pass", "x", "y", "class A(B, m=y): pass"),
        ("def f(a, /, b=x, *, c): pass", "x", "y", "def f(a, /, b=y, *, c): pass"),
        ("def f(a, /, b, *, c=x) -> z: pass", "x", "y", "def f(a, /, b, *, c=y) -> z: pass"),
        ("try: pass\nexcept x.E as e: pass", "x.E", "y", "try: pass\nexcept y as e: pass"),
        ("if a:\n  pass\nelif x: # c\n  pass", "x", "y", "if a:\n  pass\nelif y: # c\n  pass"),
        ("for i in x: pass", "x", "y", "for i in y: pass"),
        ("[i for i in a if x for j in b]", "x", "y", "[i for i in a if y for j in b]"),
        ("a and b and x or c", "x", "y or z", "a and b and (y or z) or c"),
        ("lambda a=x: a", "x", "y", "lambda a=y: a"),
        ("x", "x", "y", "y"),
    ],
)
def test_a_text_takes_the_place_of_a_node(before: str, target: str, new: str, after: str) -> None:
    m = module(before)
    assert made(m, Replace(node(m, target, ast.expr), new)) == after


@pytest.mark.parametrize(
    "text",
    [
        "match {}:\n    case 1:\n        b\n",
        "if 1:\n  match  f({}, 1) :\n    # one\n    case 1: b\n    case _: c\n",
        "match ({}):  # of two\n  case [x] if y: b\n",
    ],
)
def test_the_head_of_a_match_is_rewritten(text: str) -> None:
    m = module(text.format("a"))
    assert made(m, Replace(node(m, "a", ast.Name), "new")) == text.format("new")


def test_matches_are_rewritten_too() -> None:
    m = module("match x:\n    case 'a' | 'b' if q:  # c\n        pass\n    case _: pass\n")
    after = made(m, Replace(node(m, "'b'"), "'c'"), Replace(node(m, "q"), "r"))
    assert after == "match x:\n    case 'a' | 'c' if r:  # c\n        pass\n    case _: pass\n"


def test_what_comes_out_of_parentheses_gets_its_own() -> None:
    m = module("y = f(a +\n      b)\nz = g(f(a +\n b))\nf(a + b).c()\n")
    unwrap = lambda call: call.args[0].value  # noqa: E731
    calls = [
        n for n in ast.walk(m.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "f"
    ]
    after = made(m, *(Replace(call, unwrap) for call in calls))
    assert after == "y = (a +\n      b)\nz = g(a +\n b)\n(a + b).c()\n"


def test_several_changes_of_one_statement_are_made_from_the_inside_out() -> None:
    m = module("x = old(old(a, gone=1).b, gone=2)  # old\n")
    inner, outer = node(m, "old(a, gone=1)"), node(m, "old(old(a, gone=1).b, gone=2)")
    wrap = lambda call: call.args[0].value  # noqa: E731
    changes = [
        Remove(node(m, "gone=1")),
        Remove(node(m, "gone=2")),
        Replace(inner.func, "new"),
        Replace(outer, wrap),
    ]
    for order in (changes, changes[::-1]):
        assert made(m, *order) == "x = new(a).b  # old\n"


# -- statements -------------------------------------------------------------------------------

LOOP = "for x in y:\n    a()\n    b()  # b\n"


@pytest.mark.parametrize(
    ("before", "anchor", "after_it", "expected"),
    [
        (LOOP, "b()", True, "for x in y:\n    a()\n    b()  # b\n    new()\n"),
        (LOOP, "a()", False, "for x in y:\n    new()\n    a()\n    b()  # b\n"),
        ("if x: a(); b()\n", "a()", True, "if x: a(); new(); b()\n"),
        ("if x: a()", "a()", True, "if x: a(); new()"),
        ("a(); b()\n", "b()", False, "a(); new(); b()\n"),
        ("a()", "a()", True, "a()\nnew()"),
        (
            "\tif x:\n\t\ta()\n".replace("\tif", "if").replace("\t\t", "\t"),
            "a()",
            True,
            "if x:\n\ta()\n\tnew()\n",
        ),
    ],
)
def test_statements_are_put_beside_others(
    before: str, anchor: str, after_it: bool, expected: str
) -> None:
    m = module(before)
    assert made(m, Insert(m.statement(node(m, anchor)), "new()", after_it)) == expected


@pytest.mark.parametrize(
    ("before", "gone", "after"),
    [
        (LOOP, ["a()"], "for x in y:\n    b()  # b\n"),
        (LOOP, ["a()", "b()"], "for x in y:\n    pass  # b\n"),
        ("if q:\n    a()\nz\n", ["a()"], "z\n"),
        ("if f():\n    a()\nz\n", ["a()"], "if f():\n    pass\nz\n"),
        ("if q:\n    a()\nelse:\n    b()\nz\n", ["b()"], "if q:\n    a()\nz\n"),
        ("if q:\n    a()\nelse:\n    b()\nz\n", ["a()"], "if q:\n    pass\nelse:\n    b()\nz\n"),
        ("if q:\n    a()\nelse:\n    b()\nz\n", ["a()", "b()"], "z\n"),
        ("if q:\n    a()\nelse:\n    pass\nz\n", ["a()"], "z\n"),
        ("if q:\n    pass\nelse:\n    a()\nz\n", ["a()"], "z\n"),
        (
            "try:\n    a()\nexcept E:\n    b()\nelse:\n    c()\nz\n",
            ["c()"],
            "try:\n    a()\nexcept E:\n    b()\nz\n",
        ),
        (
            "try:\n    a()\nexcept E:\n    b()\nfinally:\n    c()\nz\n",
            ["c()"],
            "try:\n    a()\nexcept E:\n    b()\nz\n",
        ),
        (
            "try:\n    a()\nfinally:\n    c()\nz\n",
            ["c()"],
            "try:\n    a()\nfinally:\n    pass\nz\n",
        ),
        (
            "try:\n    a()\nexcept E:\n    b()\nelse:\n    c()\nfinally:\n    d()\n",
            ["c()", "d()"],
            "try:\n    a()\nexcept E:\n    b()\n",
        ),
        (
            "def f():\n    x\n    a()\n    # the end\nz\n",
            ["a()"],
            "def f():\n    x\n    # the end\nz\n",
        ),
        ("if q:\n    a()\n    b()\n    # the end\nz\n", ["a()", "b()"], "    # the end\nz\n"),
        ("if q:\n    if r:\n        a()\n    if s:\n        b()\nz\n", ["a()", "b()"], "z\n"),
        ("if q:\n    a()\nelif r:\n    b()\nz\n", ["b()"], "if q:\n    a()\nz\n"),
        ("x\n\na()\n\nz\n", ["a()"], "x\n\nz\n"),
        ("x\n# calls about cake\nabout_cake()\nz\n", ["about_cake()"], "x\nz\n"),
        (
            "x\n# section\n# calls about cake\nabout_cake()\nz\n",
            ["about_cake()"],
            "x\n# section\n# calls about cake\nz\n",
        ),
        ("def f():\n    a()\n", ["a()"], "def f():\n    pass\n"),
        ("try:\n    a()\nexcept E:\n    b()\n", ["b()"], "try:\n    a()\nexcept E:\n    pass\n"),
        ("a(); b()\nz\n", ["a()", "b()"], "z\n"),
    ],
)
def test_statements_go_with_what_was_there_for_them(
    before: str, gone: list[str], after: str
) -> None:
    m = module(before)
    assert made(m, *(Remove(m.statement(node(m, text, ast.Call))) for text in gone)) == after


#: The tests of a chain of branches, with what shows that no other is taken where the first or second is not there.
CHAINS = {
    ("k == 'a'", "k == 'b'", "k == 'c'"): True,
    ("x.kind == 1", "x.kind == 2", "x.kind == 3"): True,
    ("k == 'a'", "k == 'a'", "k == 'a'"): False,
    ("k == 'a'", "j == 'b'", "h == 'c'"): False,
    ("k == 'a'", "k != 'b'", "k != 'c'"): False,
    ("k == a", "k == b", "k == c"): False,
    ("p", "q", "r"): False,
    ("1 < k == 'a'", "k == 'b'", "k == 'c'"): False,
}


@pytest.mark.parametrize("tests", CHAINS)
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("end", ["", "else:\n    z()\n"])
@pytest.mark.parametrize("comment", ["", "# of that\n"])
def test_a_branch_goes_where_no_other_is_taken_for_it(tests: tuple[str, ...], place: int, end: str, comment: str) -> None:  # fmt: skip
    words = ("if", "elif", "elif")
    parts = [f"{word} {test}:\n    {name}()\n" for word, test, name in zip(words, tests, "abc", strict=True)]  # fmt: skip
    parts[place] += comment
    m = module("".join(parts) + end)
    stays = end or comment or not CHAINS[tests]
    parts[place] = parts[place].replace(f"{'abc'[place]}()", "pass") if stays else ""
    wanted = "".join(parts) + end
    gone = Remove(m.statement(node(m, f"{'abc'[place]}()", ast.Call)))
    assert made(m, gone) == (wanted[2:] if wanted.startswith("elif") else wanted)


def test_two_branches_that_go_leave_one_if() -> None:
    m = module("if k == 1:\n    a()\nelif k == 2:\n    b()\nelif k == 3:\n    c()\n")
    gone = [Remove(m.statement(node(m, text, ast.Call))) for text in ("a()", "b()")]
    assert made(m, *gone) == "if k == 2:\n    pass\nelif k == 3:\n    c()\n"


# -- names and imports ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "renamed", "after"),
    [
        ("import lib\nlib.old.a()\n", {"lib.old.a": "lib.new.a"}, "import lib\nlib.new.a()\n"),
        ("import lib as l\nl.old.a()\n", {"l.old.a": "lib.new.a"}, "import lib as l\nl.new.a()\n"),
        ("from lib.old import a\na()\n", {"a": "lib.new.a"}, "from lib.new import a\na()\n"),
        ("from lib.old import a, b\na(b)\n", {"a": "lib.new.a"}, "from lib.new import a\nfrom lib.old import b\na(b)\n"),
        ("from lib.old import a\na(); print(a)\n", {"a": "lib.new.a"}, "from lib.old import a\nimport lib\nlib.new.a(); print(a)\n"),
        ("from lib import old\nold.a(old.b)\n", {"old.a": "lib.new.a", "old.b": "lib.new.b"}, "from lib import new\nnew.a(new.b)\n"),
        ("from lib import old as o\no.a()\n", {"o.a": "lib.new.a"}, "from lib import new as o\no.a()\n"),
        ("import lib.old as old\nold.a(old.b)\n", {"old.a": "lib.new.a", "old.b": "lib.new.b"}, "import lib.new as new\nnew.a(new.b)\n"),
        ("import lib.old as o\no.a()\n", {"o.a": "lib.new.a"}, "import lib.new as o\no.a()\n"),
        ("import lib.old as old\nnew = 1\nold.a()\n", {"old.a": "lib.new.a"}, "import lib.new as old\nnew = 1\nold.a()\n"),
        ("from lib import old\nnew = 1\nold.a()\n", {"old.a": "lib.new.a"}, "from lib import new as old\nnew = 1\nold.a()\n"),
        ("lib.old.a()\n", {"lib.old.a": "lib.new.a"}, "lib.new.a()\n"),
        ("__all__ = ['a']\nfrom lib.old import a\na()\n", {"a": "lib.new.a"}, None),
    ],
)  # fmt: skip
def test_imports_follow_the_names(before: str, renamed: dict[str, str], after: str | None) -> None:
    m = module(before)
    changes = []
    for source, name in renamed.items():
        found = next(
            n
            for n in (node(m, source, ast.expr, i) for i in range(9))
            if isinstance(n.ctx, ast.Load)
        )
        changes.append(Rename(found, name))
    result = made(m, *changes)
    if after is None:
        assert "from lib.old import a\n" in result
        assert "lib.new.a()" in result
    else:
        assert result == after


def test_an_import_goes_when_all_its_uses_go() -> None:
    m = module("import lib\nfrom lib.old import a, b\n\na()\nb()\n")
    statements = m.tree.body[2:]
    assert made(m, Remove(statements[0])) == "import lib\nfrom lib.old import b\n\nb()\n"
    assert made(m, *map(Remove, statements)) == "import lib\n\n"


def test_imports_and_definitions_are_added_once_behind_the_others() -> None:
    m = module('"""Doc."""\nimport os\nimport lib  # c\nimport z\n\nx = 1\n')
    wanted = [Import("p.q", "r"), Define("N", "N = 1"), Import("p.q", "r"), Define("N", "N = 1")]
    after = made(m, *wanted)
    assert (
        after
        == '"""Doc."""\nimport os\nimport lib  # c\nimport p.q as r\nimport z\n\nN = 1\n\nx = 1\n'
    )
    again = module(after)
    assert made(again, *wanted) == after
    assert made(module('"""Doc."""\n'), Import("p")) == '"""Doc."""\nimport p\n'
    assert made(module("@d\ndef f(): pass\n"), Import("p")) == "import p\n@d\ndef f(): pass\n"


@pytest.mark.parametrize(
    ("before", "user", "after"),
    [
        ("import lib\nx = N\n", "x = N", "import lib\n\nN = 1\nx = N\n"),
        ("import os\nx = N\nimport lib\n", "x = N", "import os\n\nN = 0\nx = N\nimport lib\n"),
        ("x = N\nimport lib\n", "x = N", "N = 0\nx = N\nimport lib\n"),
        ('"""Doc."""\nx = N\n', "x = N", '"""Doc."""\n\nN = 1\nx = N\n'),
        ("import lib\nif a:\n    y = N\nimport z\n", "if a:\n    y = N", "import lib\n\nN = 1\nif a:\n    y = N\nimport z\n"),
    ],
)  # fmt: skip
def test_a_definition_stands_in_front_of_its_first_user(before: str, user: str, after: str) -> None:
    m = module(before)
    assert made(m, Define("N", "N = 1", node(m, user, ast.stmt), "N = 0")) == after


# -- what cannot be done is refused -----------------------------------------------------------


@pytest.mark.parametrize(
    "new",
    [
        "1 +",
        "",
        lambda node: 1 // 0,
        lambda node: node.with_changes(value="a b"),
        lambda node: None,
    ],
)
def test_what_cannot_be_made_is_refused(new: Any) -> None:
    m = module("y = f(old)\n")
    with pytest.raises(NotRewritable, match=r".+"):
        made(m, Replace(node(m, "old"), new))


def test_two_arguments_do_not_take_the_place_of_one() -> None:
    m = module("f(a=1)\n")
    with pytest.raises(NotRewritable, match="not one argument"):
        made(m, Replace(node(m, "a=1", ast.keyword), "a=1, b=2"))


def test_every_kind_of_newline_stays() -> None:
    m = module("if x:\r    y = (old,\r 1)\rz = (old,\r 1,\n 2)\r\n")
    after = made(m, *(Replace(n, "new") for n in m.index.names("old")))
    assert after == m.text.replace("old", "new")


# -- real code --------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_any_expression_of_the_standard_library_can_be_replaced(rng: random.Random) -> None:
    """The result is what cutting the node's bytes out and putting the text in gives."""
    path = rng.choice(sorted(Path(ast.__file__).parent.glob("*.py")))
    m = module(path.read_text(encoding="utf-8"))
    every = [
        n
        for n in ast.walk(m.tree)
        if isinstance(
            n, (ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.BinOp, ast.Subscript)
        )
        and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
    ]
    for found in rng.sample(every, min(6, len(every))):
        parent = m.parent(found)
        if isinstance(parent, (ast.JoinedStr, ast.Expr, ast.MatchValue)) or found in m.index.lost:
            continue
        span = m.span(found)
        expected = m.data[: span.start] + b"NEW" + m.data[span.end :]
        edits, _ = rewrite(m, [Replace(found, "NEW")])
        assert splice(m.data, edits) == expected


@pytest.mark.parametrize(
    ("anchor", "behind", "expected"),
    [
        ("a()", True, "a(); new(); c()\n"),
        ("a()", False, "new(); a(); c()\n"),
        ("c()", False, "a(); new(); c()\n"),
        ("c()", True, "a(); c(); new()\n"),
        ("b()", True, "a(); new(); c()\n"),
        ("b()", False, "a(); new(); c()\n"),
    ],
)
def test_one_statement_of_a_line_goes_while_another_comes(
    anchor: str, behind: bool, expected: str
) -> None:
    m = module("a(); b(); c()\n")
    put = Insert(m.statement(node(m, anchor)), "new()", behind)
    gone = Remove(m.statement(node(m, "b()")))
    for order in ([put, gone], [gone, put]):
        assert made(m, *order) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_beside_a_statement_that_goes_take_its_place(newline: str) -> None:
    text = newline.join(
        ["import lib", "import gone as gone", "", "import more", "if gone:", "    x()", "y()", ""]
    )
    m = module(text)
    alias = m.tree.body[1]
    inner = node(m, "x()", ast.Expr)
    changes = (
        Remove(alias),
        Insert(alias, "import new", own_line=True),
        Remove(inner),
        Insert(inner, "z()"),
    )
    expected = ["import lib", "import new", "", "import more", "z()", "y()", ""]
    assert made(m, *changes) == newline.join(expected)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_before_a_statement_that_goes_with_its_comment(newline: str) -> None:
    m = module("\n# frees the cache\nfree.cache()\n\nz\n".replace("\n", newline))
    gone = m.tree.body[0]
    assert made(m, Remove(gone), Insert(gone, "import a", after=False, own_line=True)) == (
        "\nimport a\nz\n".replace("\n", newline)
    )


def test_a_line_behind_a_block_changes_nothing_in_it() -> None:
    m = module("try:\n    import lib\nexcept ImportError:\n    raise\nx()\n")
    edits, touched = rewrite(m, [Insert(m.tree.body[0], "import new")])
    after = module(splice(m.data, edits).decode())
    assert "raise\nimport new\nx()" in after.text
    assert unproven(m, after, edits, touched) is None


def test_a_block_that_is_left_empty_by_an_if_gets_pass() -> None:
    m = module("def f(self):\n    if self.on:\n        x()  # y\n\nz()\n")
    assert made(m, Remove(node(m, "x()", ast.Expr))) == "def f(self):\n    pass  # y\n\nz()\n"


# -- whole statements, in every place of a block ------------------------------------------------

_FRAMES = {
    "of the module": "{}",
    "of a block": "if a:\n    {}",
    "behind others": "b\n\n{}\nc",
    "of a case": "match a:\n\tcase 1:\n\t\t{}",
}
_DECORATED = {
    "a function": "@d\ndef f():\n    pass",
    "a class": "@d(1,\n   2)\n@e\nclass C: pass",
    "a coroutine": "@ d\nasync def f(x): return x",
}


@pytest.mark.parametrize("frame", _FRAMES)
@pytest.mark.parametrize("what", _DECORATED)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_decorators_go_with_what_they_decorate(frame: str, what: str, newline: str) -> None:
    holder, indent = _FRAMES[frame], _FRAMES[frame].partition("{}")[0].rpartition("\n")[2]
    inside = _DECORATED[what].replace("\n", f"\n{indent}")
    m = module(holder.format(inside).replace("\n", newline))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = next(one for one in ast.walk(m.tree) if isinstance(one, kinds))
    left = made(m, Remove(found))
    assert "@" not in left and "d" not in left.replace("def", "").split()
    assert all(line in left for line in holder.replace("{}", "").split() if line in "abc")


@pytest.mark.parametrize("indent", [" ", "  ", "\t", "        ", "\t\t"])
@pytest.mark.parametrize("body", ["pass", "\n{0}{0}pass; pass", "\n{0}{0}pass\n{0}case _: pass"])
def test_a_guard_of_a_case_at_any_indentation(indent: str, body: str) -> None:
    m = module(
        f"match a:\n{indent}case b if (n := old):{' ' * (body[0] != chr(10))}{body.format(indent)}\n"
    )
    assert made(m, Replace(node(m, "old"), "new(1)")) == m.text.replace("old", "new(1)")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "text", ["if a: b\nelif c: d\n", "if a:\n    b\nelif c:\n    d\nelse:\n    e\n"]
)
def test_no_line_comes_beside_an_elif(text: str, after: bool) -> None:
    """Before it there is no place, and behind it the line would run whatever the first test says."""
    m = module(text)
    inner = m.tree.body[0].orelse[0]  # type: ignore[attr-defined]
    with pytest.raises(NotRewritable, match="elif"):
        made(m, Insert(inner, "new(1)", after=after))


@pytest.mark.parametrize("head", ["", '"""A text."""; ', "from __future__ import annotations; ", "x = 1; "])  # fmt: skip
@pytest.mark.parametrize("imports_", ["import lib;", "import os\nimport lib;", "import lib; import os; "])  # fmt: skip
@pytest.mark.parametrize("added", ["import new", "from new import x as new", "try:\n    import new\nexcept ImportError:\n    new = 0"])  # fmt: skip
def test_what_is_imported_is_there_for_the_rest_of_its_line(
    head: str, imports_: str, added: str
) -> None:
    m = module(f"{head}{imports_}a(); b()\nc()\n")
    a = node(m, "a", ast.Name)
    after = made(m, Replace(a, "new.a"), Import("new", code=added))
    body = ast.parse(after).body
    there = next(n for n, statement in enumerate(body) if "import" in ast.unparse(statement) and "new" in ast.unparse(statement))  # fmt: skip
    used = next(n for n, statement in enumerate(body) if "new.a" in ast.unparse(statement))
    assert there < used, after


@pytest.mark.parametrize("lines", ["if y:\n    a()", "def f():\n    return 1\n", "\n\na()\nb()\n", "try:\n    a()\nexcept E:  # why\n    b()"])  # fmt: skip
@pytest.mark.parametrize("around", ["", "if y:\n  ", "def f():\n\t"])
@pytest.mark.parametrize("text", ["x();z()", "x(); z() # why", "x(); v = (1,\n   2) ; z();", "x(); v = '''\n'''; z()", "x() \\\n  ; \\\n  z()", "v = (f'''{\n1}'''); x(); z()"])  # fmt: skip
@pytest.mark.parametrize(("anchor", "after"), [("x()", False), ("x()", True), ("z()", False), ("z()", True)])  # fmt: skip
def test_several_lines_part_the_statements_of_one(text: str, anchor: str, after: bool, around: str, lines: str) -> None:  # fmt: skip
    """The line ends where they come, and goes on below."""
    m = module(f"{around}{text}\nw()\n")
    changed = ast.parse(made(m, Insert(m.statement(node(m, anchor)), lines, after=after)))

    def block(tree: ast.Module) -> list[str]:
        return list(map(ast.unparse, getattr(tree.body[0], "body", tree.body) if around else tree.body))  # fmt: skip

    wanted = block(ast.parse(m.text))
    place = wanted.index(anchor) + after
    wanted[place:place] = list(map(ast.unparse, ast.parse(lines).body))
    assert block(changed) == wanted


@pytest.mark.parametrize("text", ["if y: x(); z()\n", "class C: x(); z()\n", "try: x(); z()\nfinally: pass\n"])  # fmt: skip
@pytest.mark.parametrize("after", [False, True])
def test_several_lines_have_no_place_behind_a_header(text: str, after: bool) -> None:
    m = module(text)
    for anchor in ("x()", "z()"):
        with pytest.raises(NotRewritable, match="cannot share a line"):
            made(m, Insert(m.statement(node(m, anchor)), "a()\nb()", after=after))


@pytest.mark.parametrize("gone", ["x()", "z()"])
@pytest.mark.parametrize("number", [1, 2])
def test_lines_between_statements_that_go(gone: str, number: int) -> None:
    m = module("x(); z()\n")
    change = Insert(m.statement(node(m, "x()")), "a()\nb()")
    after = made(m, Remove(m.statement(node(m, gone))), *[change] * number)
    assert [ast.unparse(s) for s in ast.parse(after).body if ast.unparse(s) not in ("a()", "b()")] == [{"x()": "z()", "z()": "x()"}[gone]]  # fmt: skip


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize("head", ["type X[{}] = int", "class C[{}]: pass", "def f[{}](): pass", "async def f[{}](): pass"])  # fmt: skip
@pytest.mark.parametrize("parameter", ["T: {}", "T: ({}, int)", "S, T: {}", "T: {}, *U, **V", "T: int = {}", "*T = {}", "**T = {}"])  # fmt: skip
def test_what_types_are_declared_with_is_rewritten(head: str, parameter: str) -> None:
    if "=" in parameter and sys.version_info < (3, 13):
        pytest.skip("syntax of Python 3.13")
    text = head.format(parameter.format("old(1)")) + "\n"
    m = module(text)
    assert made(m, Replace(node(m, "old", ast.Name), "new")) == text.replace("old", "new")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
@pytest.mark.parametrize("text", ["type X = old(1)\n", "type X = T[old(1)]\n", "type X[T] = old(1) | None\n"])  # fmt: skip
def test_the_value_of_a_type_is_rewritten(text: str) -> None:
    m = module(text)
    assert made(m, Replace(node(m, "old", ast.Name), "new")) == text.replace("old", "new")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="syntax of Python 3.11")
@pytest.mark.parametrize("caught", ["E", "(E, F) as e"])
@pytest.mark.parametrize("rest", ["", "else:\n    {}\n", "finally:\n    {}\n"])
@pytest.mark.parametrize("gone", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_a_group_is_caught_as_one_error_is(caught: str, rest: str, gone: tuple[int, ...]) -> None:
    """What becomes of ``except*`` is what becomes of ``except``, with the star."""

    def after(word: str) -> str:
        text = f"import lib\ntry:\n    {{}}\n{word} {caught}:\n    {{}}\n{rest}w()\n"
        m = module(text.format(*("x()" if n in gone else "z()" for n in range(3))))
        found = [n for n in ast.walk(m.tree) if isinstance(n, ast.Expr) and m.source(n) == "x()"]
        return made(m, *map(Remove, found))

    assert after("except*").replace("except*", "except") == after("except")


@pytest.mark.parametrize(
    "head", ["", "def f():\n", "if 1:\n", "match 1:\n  case 1:\n", "try: pass\nexcept E:\n"]
)
@pytest.mark.parametrize("before", ["x = (1,\n        2); ", "x = 1; y = [\n]; ", "x = '''\n      '''; ", "x = \\\n    1; "])  # fmt: skip
@pytest.mark.parametrize("after", [False, True])
def test_a_line_beside_a_continued_one_is_indented_as_its_first(head: str, before: str, after: bool) -> None:  # fmt: skip
    lead = "      " if head else ""
    m = module(f"{head}{lead}{before}z()\n{lead}w()\n")
    anchor = m.statement(node(m, "z()"))
    if after:
        assert f"\n{lead}new()\n" in made(m, Insert(anchor, "new()", own_line=True))
    assert m.indent(anchor) == lead


@pytest.mark.parametrize("head", ["if (1 and\n        2): ", "while [\n  1]: ", "case (1,\n       2): ", "except (E,\n     F): "])  # fmt: skip
def test_a_statement_behind_a_header_is_indented_as_that(head: str) -> None:
    around = {"c": "match 1:\n  ", "e": "try: pass\n"}.get(head[0], "")
    m = module(f"{around}{head}x(); y()\n")
    indent = "  " if head[0] == "c" else ""
    assert m.indent(m.statement(node(m, "x()"))) == m.indent(m.statement(node(m, "y()"))) == indent


@pytest.mark.parametrize("gap", [";", "; ", " ;  "])
@pytest.mark.parametrize("around", ["", "if y: ", "if y:\n    "])
@pytest.mark.parametrize("beside", ["a.c()", "a.b.d(1)", "a", "(a.b)", "b()", "a.b.c(2)"])
def test_what_goes_may_begin_or_end_as_its_neighbours(gap: str, around: str, beside: str) -> None:
    """What is taken out is the statement, not as much text from the middle of two."""
    for parts in (["a.b.c()", beside], [beside, "a.b.c()"], [beside, "a.b.c()", beside], ["a.b.c()", "a.b.c()", beside]):  # fmt: skip
        m = module(f"{around}{gap.join(parts)}\n")
        gone = [n for n in ast.walk(m.tree) if isinstance(n, ast.Expr) and m.source(n) == "a.b.c()"]
        edits, touched = rewrite(m, [Remove(n) for n in gone])
        after = module(splice(m.data, edits).decode())
        assert unproven(m, after, edits, touched) is None
        kept = [each for each in parts if each != "a.b.c()"]
        assert ast.dump(ast.parse(after.text)) == ast.dump(
            ast.parse(f"{around}{'; '.join(kept)}\n")
        )


_NESTED = (
    "def f(x: a = b, /, y: c = d, *args: e, z: g = h, **k: i) -> j: pass\n",
    "@a\nasync def f(x: b, y: c = d, *, z: e = g): pass\n",
    "v = [a for b in c if d for e in g if h for i in j]\n",
    "v = {a: b for c, d in e for g in h for i in j if k}\n",
    "v = a[b, c:d, (e, g)], h[i:j], k[l]\n",
    "v = a.x[b.y, c](d, *e, n=g, **h)\n",
    "v = (lambda x=a, *, y=b: c), d and e and g and not h\n",
    "v = a < b < c if d else f'{e:{g}}{h}'\n",
    "@a\nclass C(b, *c, metaclass=d, **e): pass\n",
    "with a as b.x, (c) as d[e]: pass\n",
    "match a, b:\n    case c.x(y=d.z) | {e.x: g.y} if h: pass\n",
)


@pytest.mark.parametrize("text", _NESTED)
@pytest.mark.parametrize("frame", ["{}", "if y:\n  {}", "class D:\n\t{}"])
def test_changes_of_one_statement_are_all_made_in_any_order(text: str, frame: str) -> None:
    lines = text.splitlines(keepends=True)
    indent = frame.partition("\n")[2].removesuffix("{}")
    m = module(frame.format(indent.join(lines)))
    names = [n for n in ast.walk(m.tree) if isinstance(n, ast.Name) and n.id not in "vy"]
    pairs = [[one, other] for one in names for other in names if one is not other]
    for picked in (*pairs, names, names[::-1]):
        after = made(m, *(Replace(name, f"new.{name.id}") for name in picked))
        found = [ast.unparse(n) for n in ast.walk(ast.parse(after)) if isinstance(n, ast.Attribute)]
        assert {f"new.{name.id}" for name in picked} <= set(found)


@pytest.mark.parametrize(
    ("before", "used", "new", "after"),
    [
        ('from torch import cuda\ncuda.Stream()\n', 'cuda.Stream', 'torch.hpu.Stream', 'from torch import hpu\nhpu.Stream()\n'),
        ('from torch import cuda\ncuda.Stream()\n', 'cuda.Stream', 'lib.torch.hpu.Stream', 'import lib\nlib.torch.hpu.Stream()\n'),
        ('from torch import cuda\ncuda.Stream()\n', 'cuda.Stream', 'torch.hpu.streams.Stream', 'from torch import hpu\nhpu.streams.Stream()\n'),
        ('from torch import cuda\ncuda.Stream()\n', 'cuda.Stream', 'torch.hpu.Event', 'import torch\ntorch.hpu.Event()\n'),
        ('from torch import cuda\ncuda.Stream()\n', 'cuda.Stream', 'torch.cuda.streams.Stream', 'from torch import cuda\ncuda.streams.Stream()\n'),
        ('import torch.cuda as c\nc.Stream()\n', 'c.Stream', 'torch.hpu.Stream', 'import torch.hpu as c\nc.Stream()\n'),
        ('import torch.cuda as c\nc.amp.Scaler()\n', 'c.amp.Scaler', 'torch.hpu.amp.Scaler', 'import torch.hpu as c\nc.amp.Scaler()\n'),
        ('import torch.cuda as c\nc.amp.Scaler()\n', 'c.amp.Scaler', 'torch.amp.Scaler', 'import torch\ntorch.amp.Scaler()\n'),
        ('from torch.cuda import amp\namp.Scaler()\n', 'amp.Scaler', 'torch.amp.Scaler', 'from torch import amp\namp.Scaler()\n'),
        ('from torch.cuda import Stream\nStream()\n', 'Stream', 'torch.hpu.Stream', 'from torch.hpu import Stream\nStream()\n'),
        ('from torch.cuda import Stream as S\nS()\n', 'S', 'torch.hpu.streams.Stream', 'from torch.hpu.streams import Stream as S\nS()\n'),
        ('import torch\ntorch.cuda.Stream()\n', 'torch.cuda.Stream', 'torch.hpu.Stream', 'import torch\ntorch.hpu.Stream()\n'),
        ('from torch import cuda\ncuda.Stream()\ncuda.Event()\n', 'cuda.Stream', 'torch.hpu.Stream', 'from torch import cuda\nimport torch\ntorch.hpu.Stream()\ncuda.Event()\n'),
    ],
)  # fmt: skip
def test_what_an_import_means_after_one_of_its_uses_has_another_name(before: str, used: str, new: str, after: str) -> None:  # fmt: skip
    m = module(before)
    assert made(m, Rename(node(m, used, ast.expr), new)) == after
