"""What runs behind a condition, what leaves a block, and the value that the statements before a place give a variable."""

from __future__ import annotations

import ast

import pytest

from hpushim.pycode import control, stores
from hpushim.pycode.source import Source

#: The last statement of a block: whether nothing behind it runs, and whether the program stops there.
LAST = {
    "return x": (True, False), "raise E(1)": (True, True), "raise SkipTest('no')": (True, False), "raise unittest.SkipTest": (True, False), "continue": (True, False), "break": (True, False),
    "exit(1)": (True, True), "sys.exit()": (True, True), "os._exit(0)": (True, True), "quit()": (True, True), "parser.error('x')": (True, True), "pytest.skip('x')": (True, False), "self.skipTest('x')": (True, False),
    "pytest.fail('x')": (True, False), "x = exit(1)": (False, False), "exit": (False, False), "print(1)": (False, False), "pass": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("last", LAST)
def test_what_leaves_a_block(last: str) -> None:
    (block,) = ast.parse(f"for a in b:\n pass\n {last}").body
    assert isinstance(block, ast.For)
    leaves, stops = LAST[last]
    assert (control.ends(block.body), control.stops(block.body)) == (leaves, stops)
    for text, found in (("if a:\n {0}\nelse:\n {0}", leaves), ("if a:\n {0}\nelse:\n pass", False), ("if a:\n pass\nelse:\n {0}", False), ("if a:\n {0}", False)):  # fmt: skip
        inner = ast.parse("for a in b:\n " + text.format(last).replace("\n", "\n ")).body[0]
        assert isinstance(inner, ast.For)
        assert (control.ends(inner.body), control.stops(inner.body)) == (found, False)


@pytest.mark.parametrize("text", ["if t:\n    a\nelse:\n    b", "while t:\n    a\nelse:\n    b", "a if t else b"])  # fmt: skip
@pytest.mark.parametrize("true", [True, False])
def test_what_runs_by_the_answer_of_a_test(text: str, true: bool) -> None:
    (statement,) = ast.parse(text).body
    choice = statement.value if isinstance(statement, ast.Expr) else statement
    assert isinstance(choice, (ast.If, ast.While, ast.IfExp))
    found = ["".join(map(ast.unparse, part)) for part in control.branches(choice, true=true)]
    assert found == (["a", "b"] if true else ["b", "a"])
    block = ast.parse("a\nb\nc").body
    assert [len([*control.behind(block, each)]) for each in (*block, choice)] == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("before", "last", "value"),
    [
        ("x = 1\n", "x = 1", "1"), ("x = 1\ny = 2\n", "x = 1", "1"), ("x = 1\nx = 2\n", "x = 2", "2"), ("x = y = 1\n", "x = y = 1", None), ("x, y = 1, 2\n", "x, y = (1, 2)", None), ("x: int = 1\n", "x: int = 1", None),
        ("x += 1\n", "x += 1", None), ("y = x\n", None, None), ("x = 1\nif a:\n    x = 2\n", "if a:\n    x = 2", None), ("x = 1\nfor x in b:\n    pass\n", "for x in b:\n    pass", None), ("del x\n", "del x", None),
        ("x = 1\nif a:\n  y = 2\n  ", "x = 1", "1"), ("x = 1\nif a:\n  x = 2\n  ", "x = 2", "2"), ("x = 1\nwhile a:\n  y = 1\n  ", None, None), ("x = 1\nif a:\n  if b:\n    ", "x = 1", "1"), ("y.x = 1\n", None, None), ("y[x] = 1\n", None, None),
        ("x = y[0] = 1\n", "x = y[0] = 1", None),
    ],
)  # fmt: skip
def test_the_last_statement_that_gives_a_variable_its_value(before: str, last: str | None, value: str | None) -> None:  # fmt: skip
    source = Source(f"{before}HERE(x)\n")
    (call,) = (each for each in ast.walk(source.tree) if isinstance(each, ast.Call) and ast.unparse(each.func) == "HERE")  # fmt: skip
    variable = call.args[0]
    assert isinstance(variable, ast.Name)
    found = stores.last_store(source, variable, (ast.If,))
    assert (ast.unparse(found) if found else None) == last
    given = stores.assigned(found, variable)
    assert (ast.unparse(given) if given else None) == value
    assert stores.assigned(found, call.func if last is None else ast.parse("y.x").body[0].value) is None  # type: ignore[attr-defined]  # fmt: skip
