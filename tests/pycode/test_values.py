"""The value graph: by the forms in which values go, back and on."""

from __future__ import annotations

import ast
import re

import pytest
from value_forms import APART, BACK, FORMS

from hpushim.pycode.answers import Answers
from hpushim.pycode.cells import CHANGED, PARTS
from hpushim.pycode.places import At, Part
from hpushim.pycode.source import Source
from hpushim.pycode.values import TooManySteps, Values


def graph(code: str) -> tuple[Source, Values]:
    source = Source(code)
    return source, source.view(Values)


def marked(source: Source) -> tuple[list[ast.Name], list[ast.expr]]:
    """Where the value stands, and what the uses are given."""
    return source.index.names("SOURCE"), [call.args[0] for call in source.index.calls("use")]


def arrives_back(code: str) -> bool:
    source, values = graph(code)
    starts, ends = marked(source)
    how = Values.SAME | {"given"}
    edges = [edge for end in ends for edge in values.reach(end, values.sources, how)]
    reached = [edge.at for edge in edges if edge.how in how]
    return any(At(start) in [*reached, *map(At, ends)] for start in starts)


def arrives_on(code: str) -> bool:
    source, values = graph(code)
    starts, ends = marked(source)
    reached = [
        edge.at for start in starts for edge in values.reach(start, values.uses) if edge.same
    ]
    return any(At(end) in [*reached, *map(At, starts)] for end in ends)


@pytest.mark.parametrize("name", [*FORMS, *BACK])
def test_where_a_value_comes_from(name: str) -> None:
    assert arrives_back({**FORMS, **BACK}[name])


@pytest.mark.parametrize("name", FORMS)
def test_where_a_value_goes(name: str) -> None:
    assert arrives_on(FORMS[name])


@pytest.mark.parametrize("name", APART)
def test_another_value_does_not_arrive(name: str) -> None:
    assert not arrives_back(APART[name])
    assert not arrives_on(APART[name])


#: Whose inner values are not followed in both directions.
_SHALLOW = {"map with a lambda", "the members", "the value of a member"}


def _inside(code: str, place: int) -> str:
    """The form with a pair in place of the value, and one of its members used."""
    paired = re.sub(r"\bSOURCE\b", "(aside, SOURCE)", code)
    return re.sub(r"\buse\((.+)\)(?=\s|$)", rf"use(\1[{place}])", paired)


def test_what_is_inside_of_a_value_goes_where_it_goes() -> None:
    """A member arrives, the one beside it does not, in each form."""
    missed = {
        name
        for name, code in FORMS.items()
        if not (arrives_back(_inside(code, 1)) and arrives_on(_inside(code, 1)))
    }
    assert missed == _SHALLOW
    mixed = {
        name
        for name, code in FORMS.items()
        if arrives_back(_inside(code, 0)) or arrives_on(_inside(code, 0))
    }
    assert mixed == set()


@pytest.mark.parametrize("way", [(), (Part.ITEM,)])
def test_what_a_method_makes_of_a_text_is_a_part_of_it(way: tuple[Part, ...]) -> None:
    for name in (*CHANGED, *PARTS, "group", "other_zq"):
        source, values = graph(f"x.{name}()")
        (call,) = source.index.calls(name)
        found = [(edge.how, getattr(edge.at.node, "id", "")) for edge in values.sources(At(call, way))]  # fmt: skip
        part = name == "group" or (name in PARTS and bool(way)) or (name in CHANGED and not way)
        assert (("part", "x") in found) is part, name


# -- the cost ---------------------------------------------------------------------------------

#: Programs that grow: ``{n}`` is the number of a piece.
GROWING = {
    "one name, assigned again and again": ("x = SOURCE\n", "x = x\n", "use(x)\n"),
    "one name, called again and again": ("x = SOURCE\n", "x = x.go()\n", "use(x)\n"),
    "a chain of names": ("x0 = SOURCE\n", "x{m} = x{n}\nuse(x{n})\n", ""),
    "a table": ("t = {{}}\n", "t['k{n}'] = SOURCE\nuse(t['k{n}'])\n", ""),
    "a literal table": ("t = {{", "'k{n}': SOURCE, ", "}}\nuse(t['k1'])\nuse(t[k])\n"),
    "a literal list": ("t = [", "SOURCE, ", "]\nuse(t[1])\na, *b = t\nuse(a)\n"),
    "appended": ("xs = []\n", "xs.append(SOURCE)\nuse(xs[{n}])\n", ""),
    "loops": ("xs = [SOURCE]\n", "for x in xs:\n    use(x)\n", ""),
    "an attribute": ("", "def f{n}(o):\n    o.x = SOURCE\n    use(o.x)\n", ""),
    "an attribute of classes": ("", "class A{n}:\n    def f(self):\n        self.x = SOURCE\n        use(self.x)\n", "use(a.x)\n"),
    "an attribute of relatives": ("class A0:\n    x = SOURCE\n", "class A{m}(A0):\n    def f(self):\n        use(self.x)\n", ""),
    "methods of one name": ("", "class A{n}:\n    def f(self, x):\n        use(x)\nA{n}().f(SOURCE)\n", ""),
    "calls of one function": ("def f(x):\n    use(x)\n", "f(SOURCE)\n", ""),
    "a chain of functions": ("def f0(x):\n    use(x)\n", "def f{m}(x):\n    return f{n}(x)\n", "f1(SOURCE)\n"),
    "local names": ("", "def f{n}():\n    x = SOURCE\n    use(x)\n", ""),
    "comprehensions": ("xs = [SOURCE]\n", "ys{n} = [use(x) for x in xs]\n", ""),
    "options": ("", "p.add_argument('--o{n}', default=SOURCE)\nuse(args.o{n})\n", ""),
}  # fmt: skip


def steps(form: tuple[str, str, str], pieces: int) -> int:
    """The steps to answer where every value comes from and where it goes."""
    start, piece, end = form
    code = (
        start.format() + "".join(piece.format(n=n, m=n + 1) for n in range(pieces)) + end.format()
    )
    source, values = graph(code)
    back = Answers[frozenset[str]](_marks, values.sources)
    on = Answers[frozenset[str]](_marks, values.uses)
    starts, ends = marked(source)
    for node in ends:
        back.of(At(node))
    for node in starts:
        on.of(At(node))
    return source.steps.taken


def _marks(at: At) -> frozenset[str]:
    return frozenset(["SOURCE"] if getattr(at.node, "id", "") == "SOURCE" else [])


@pytest.mark.parametrize("name", GROWING)
def test_the_work_grows_with_the_file(name: str) -> None:
    assert steps(GROWING[name], 400) < 4.5 * steps(GROWING[name], 100)


@pytest.mark.parametrize("name", [name for name in FORMS if "inside" not in name])
def test_an_answer_is_that_of_the_way(name: str) -> None:
    source, values = graph(FORMS[name])
    answers = Answers[frozenset[str]](
        _marks, lambda at: [e for e in values.sources(at) if e.same or e.how == "given"]
    )
    found = [answers.of(At(end)) for end in marked(source)[1]]
    assert frozenset(["SOURCE"]) in found


def test_a_file_has_a_bound() -> None:
    source, values = graph("x = SOURCE\n" + "x = x\n" * 50)
    source.steps.most = source.steps.taken + 20
    with pytest.raises(TooManySteps):
        list(values.reach(source.index.names("SOURCE")[0], values.uses))


def test_arguments_are_bound_to_parameters() -> None:
    source, values = graph(
        "class A:\n    def f(self, x, *, y=0):\n        pass\na = A()\na.f(1, y=2)\n"
    )
    (call,) = source.index.calls("f")
    (function,) = values.callees(call)
    assert {name: ast.unparse(node) for name, node in values.bind(call, function).items()} == {
        "x": "1",
        "y": "2",
    }
    assert values.calls_of(function) == [call]


def test_origins() -> None:
    source, values = graph("import m\nx = 1 if c else m\ndef f(y=x):\n    use(y)\nf(z)\n")
    found = {ast.unparse(node) for node in values.origins(marked(source)[1][0])}
    assert found == {"1", "m", "z"}


def test_what_python_calls_for_a_loop_is_found_while_loops_are_followed() -> None:
    code = "class A:\n    def __iter__(self):\n        return iter([SOURCE])\nfor xs in all:\n    for x in xs:\n        y = x[0]\nfor x in A():\n    use(x)"
    assert arrives_back(code)
    assert arrives_on(code)
