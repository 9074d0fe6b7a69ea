"""Choices that rewrites have made are folded; those of the author, and what computes something, stay."""

from __future__ import annotations

import pytest
import toys
from crossed import crossed

from hpushim.engine.one_file import settle
from hpushim.engine.python.changes import Replace, Rewrite
from hpushim.engine.python.module import Module
from hpushim.engine.rules.rule import Code, Rule, Wants, Yield

#: What the rule below writes for these names.
WRITTEN = {"off_now": "False", "on_now": "True", "f16": "b16", "left": "same(1)", "right": "same(1)"}  # fmt: skip


class Decides(Rule):
    HPU931 = Code("decides", fix="safe")
    wants = Wants(words=tuple(WRITTEN))

    def on_module(self, module: Module) -> Yield:
        for name, text in WRITTEN.items():
            for node in module.index.names(name):
                fix = Rewrite("decide", "safe", (Replace(node, text),))
                yield self.finding(node, f"`{name}` is decided", fix=fix)


@pytest.fixture(autouse=True)
def _one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    toys.use(monkeypatch, Decides)


def folded(text: str) -> str:
    done = settle(text, "python", "a.py", toys.context())
    again = settle(done.text, "python", "a.py", toys.context())
    assert again.text == done.text
    return done.text


EXPRESSIONS = {
    "A if off_now else B": "B",
    "A if on_now else B": "A",
    "A if not off_now else B": "A",
    "A if off_now and x else B": "B",
    "A if x.y and off_now else B": "B",
    "A if f() and off_now else B": "A if f() and False else B",
    "A if x and on_now else B": "A if x else B",
    "A if on_now and (x or y) else B": "A if x or y else B",
    "A if x and on_now and (y or z) else B": "A if x and (y or z) else B",
    "A if x or on_now else B": "A",
    "A if off_now or x else B": "A if x else B",
    "x.y and off_now": "x.y and False",
    "off_now and f()": "False",
    "on_now or f()": "True",
    "f16 if x else b16": "b16",
    "b16 if x.y > 3 else f16": "b16",
    "f16 if f(x) else b16": "b16 if f(x) else b16",
    "b16 if x else b16": "b16 if x else b16",
    "A if False else f16": "A if False else b16",
    "left if x else right": "same(1)",
}
AROUND = ["v = {0}\n", "f(1, ({0}), k=2)\n", "f(**({0}))\n", "def g():\n    return [1, {0}]\n"]


@pytest.mark.parametrize(("expression", "around"), crossed(list(EXPRESSIONS), AROUND, rounds=2))
def test_an_expression(expression: str, around: str) -> None:
    after = EXPRESSIONS[expression]
    bare = around.replace("({0})", "{0}").format(after)
    assert folded(around.format(expression)).replace(f"({after})", after) == bare


STATEMENTS = {
    "if off_now:\n    a()\n": "",
    "if on_now:\n    a()\n    b()\n": "a()\nb()\n",
    "if off_now:\n    a()\nelse:\n    # why\n    b(\n        1,\n    )\n": "b(\n    1,\n)\n",
    "if off_now:\n    a()\nelif x:\n    b()\nelse:\n    c()\n": "if x:\n    b()\nelse:\n    c()\n",
    "if x:\n    a()\nelif off_now:\n    b()\nelse:\n    c()\n": "if x:\n    a()\nelse:\n    c()\n",
    "if x:\n    a()\nelif off_now:\n    b()\n": "if x:\n    a()\n",
    "if x:\n    y = left\nelse:\n    y = right\n": "y = same(1)\n",
    "if x:\n    y = left\nelse:\n    # the last\n    y = right\n": "if x:\n    y = same(1)\nelse:\n    # the last\n    y = same(1)\n",
    "if f():\n    y = left\nelse:\n    y = right\n": "if f():\n    y = same(1)\nelse:\n    y = same(1)\n",
    "if x:\n    y = left\nelse:\n    y = right\n    z()\n": "if x:\n    y = same(1)\nelse:\n    y = same(1)\n    z()\n",
    "if x:\n    y = same(1)\nelse:\n    y = same(1)\n": "if x:\n    y = same(1)\nelse:\n    y = same(1)\n",
    'if on_now:\n    y = """a\nb"""\n': 'if True:\n    y = """a\nb"""\n',
}
BLOCKS = ["{0}", "def g(x):\n{1}    return x\n", "for x in y:\n    k()\n{1}", "try:\n{1}    k()\nexcept E:\n    pass\n"]  # fmt: skip


@pytest.mark.parametrize(("statement", "block"), crossed(list(STATEMENTS), BLOCKS, rounds=2))
def test_a_statement(statement: str, block: str) -> None:
    def within(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return block.format(text, "".join(f"    {line}" for line in lines))

    if '"""' in statement and block != "{0}":
        return
    expected = STATEMENTS[statement]
    assert folded(within(statement)).replace("    # why\n", "").replace("# why\n", "") in (within(expected), within(expected or "pass\n"))  # fmt: skip


NAMES = {
    "    use = off_now\n    return A if use else B\n": "    return B\n",
    "    use = off_now and x\n    if use:\n        k()\n    return x\n": "    return x\n",
    "    use = on_now\n    k(use)\n    return A if use else B\n": "    use = True\n    k(use)\n    return A if use else B\n",
    "    use = off_now\n    use = x\n    return A if use else B\n": "    use = False\n    use = x\n    return A if use else B\n",
    "    kind = x.y > 1\n    return A if off_now and kind else B\n": "    return B\n",
    "    one = x.y\n    kind = one and x\n    return A if off_now and kind else B\n": "    return B\n",
    "    kind = f(x)\n    return A if off_now and kind else B\n": "    kind = f(x)\n    return B\n",
    "    kind = x.y\n    k(kind)\n    return A if off_now and kind else B\n": "    kind = x.y\n    k(kind)\n    return B\n",
    "    self.kind = kind\n    return A if off_now and kind else B\n": "    self.kind = kind\n    return B\n",
    "    global kind\n    kind = x.y\n    return A if off_now and kind else B\n": "    global kind\n    kind = x.y\n    return B\n",
    "    kind = x.y\n    k(locals())\n    return A if off_now and kind else B\n": "    kind = x.y\n    k(locals())\n    return B\n",
    "    kind = x.y\n    other = 3\n    return A if off_now and kind else B\n": "    other = 3\n    return B\n",
}


@pytest.mark.parametrize("body", NAMES)
@pytest.mark.parametrize("head", ["def g(x):\n", "class C:\n    def g(self, x, f):\n", "async def g(x):\n"])  # fmt: skip
def test_a_name_that_nobody_reads_any_more(head: str, body: str) -> None:
    deep = "    " if head.startswith("class") else ""

    def under(text: str) -> str:
        return head + "".join(f"{deep}{line}" for line in text.splitlines(keepends=True))

    assert folded(under(body)) == under(NAMES[body])


def test_at_the_top_level_a_name_stays() -> None:
    assert folded("kind = x.y\nv = A if off_now and kind else B\n") == "kind = x.y\nv = B\n"
