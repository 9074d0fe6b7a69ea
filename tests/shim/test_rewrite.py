"""Comparisons of device types are widened: what is rewritten answers on HPU as the original does on CUDA."""

from __future__ import annotations

import ast
import collections
import dataclasses
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compare"))
from forms import FORMS, FormCase

from hpushim.shim.run import rewrite, widened


@dataclasses.dataclass(frozen=True)
class Device:
    """As ``torch.device``: a type, an index, a text."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"


class Tensor:
    """What a form asks of a tensor."""

    ndim = 1

    def __init__(self, device: Device) -> None:
        self.device = device

    def type(self) -> str:
        return "torch.FloatTensor" if self.device.type == "cpu" else "torch.cuda.FloatTensor"


def answer(code: str, device: Device, given: str, *, as_rewritten: bool = False) -> Any:
    """What the program's ``f`` gives, or the kind of error that it raises."""
    tree = ast.parse(code)
    if as_rewritten:
        tree, _ = rewrite.apply(tree)
    scope: dict[str, Any] = {"Device": Device}
    exec(compile(tree, "<form>", "exec"), scope)
    try:
        return scope["f"](Tensor(device), device, given)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        return type(error)


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.name)
def test_form_answers_as_on_cuda(case: FormCase) -> None:
    on_cuda = answer(case.code, Device("cuda", 0), "cuda")
    on_cpu = answer(case.code, Device("cpu"), "cpu")
    here = answer(case.code, Device("hpu", 0), "cuda", as_rewritten=True)
    if case.holds == "device" or case.follows:
        assert here == on_cuda
        assert answer(case.code, Device("hpu", 0), "cuda") != on_cuda, "the form shows nothing"
    else:
        assert here == answer(case.code, Device("hpu", 0), "cuda")
    # What was right stays right: on the CPU, and for a CUDA device that the shim never saw.
    assert answer(case.code, Device("cpu"), "cpu", as_rewritten=True) == on_cpu
    assert answer(case.code, Device("cuda", 0), "cuda", as_rewritten=True) == on_cuda


@pytest.mark.parametrize(
    "form",
    [
        "sorted({0}) == sorted({1})",
        "list({1}) == list({0})",
        "len({{*{0}, *{1}}}) == 1 == len(set({0}))",
        "Counter({0}) != Counter({1})",
        "tuple({1}) in [tuple({0})]",
        "sorted((one, 1) for one in {0}) == sorted((one, 1) for one in {1})",
        "sorted([*{0}, 'gpu']) == sorted([*{1}, 'gpu'])",
    ],
)
@pytest.mark.parametrize("read", ["[x.device.type]", "(t.device.type for t in [x])"])
@pytest.mark.parametrize(
    "other", ["[getattr(x, 'dev' + 'ice').type]", "{d.type: 0 for d in vars(x).values()}"]
)
def test_a_type_of_an_unknown_object_beside_a_devices(form: str, read: str, other: str) -> None:
    """Both sides are mapped, or none of them is."""
    told = form.format(read, other)
    code = f"from collections import Counter\ndef f(x, device, given):\n    return {told}\n"
    for kind in ("cuda", "cpu", "hpu"):
        right = answer(code, Device("cuda", 0), kind)
        assert answer(code, Device(kind, 0), kind, as_rewritten=True) == right


@pytest.mark.parametrize("kind", ["Float", "Long", "BFloat16"])
@pytest.mark.parametrize("shown", ["str(error)", "repr(error)", "message", "again"])
@pytest.mark.parametrize(
    "form", ["{0} in {1}", "not {0} not in {1}", "[{0} in one for one in [{1}]] == [True]"]
)
def test_the_type_of_a_tensor_in_an_error(kind: str, shown: str, form: str) -> None:
    told = form.format(repr(f"[torch.cuda.{kind}Tensor [2]]"), shown)
    code = f"def f(error):\n    message = str(error)\n    again = message\n    return {told}\n"
    scope: dict[str, Any] = {}
    exec(compile(rewrite.apply(ast.parse(code))[0], "<form>", "exec"), scope)
    for text, holds in ((f"changed: [HPU{kind}Type [2]]", True), (f"changed: [torch.cuda.{kind}Tensor [2]]", True), ("HPUShortType [2]", False)):  # fmt: skip
        assert scope["f"](RuntimeError(text)) is holds


_KEPT = """class Kept(dict):
    def __missing__(self, kind):
        self[str(kind)] = made = object()
        return made
def f(x, device, given):
    kept = Kept()
    made = kept[x.device]
    return FORM
"""


@pytest.mark.parametrize(
    "form", ['kept["cuda:0"] is made', 'kept["cuda:0"] is made and len(kept) == 1']
)
def test_a_table_that_fills_itself_has_cudas_entry(form: str) -> None:
    code = _KEPT.replace("FORM", form)
    for kind in ("cuda", "hpu"):
        assert answer(code, Device(kind, 0), kind, as_rewritten=True) is True


def rewritten(source: str) -> str:
    tree, _ = rewrite.apply(ast.parse(source))
    return ast.unparse(tree)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ('x.device.type == "cuda"', "x.device.type in ('cuda', 'hpu')"),
        ('d.type != "cuda"', "d.type not in ('cuda', 'hpu')"),
        ('device_type == "cuda:0"', "device_type in ('cuda:0', 'hpu:0')"),
        ('x.device.type in ("cuda", "xpu")', "x.device.type in ('cuda', 'xpu', 'hpu')"),
    ],
)
def test_the_usual_forms_need_no_function(source: str, result: str) -> None:
    assert rewritten(source) == result


@pytest.mark.parametrize("case", [c for c in FORMS if c.holds in ("handled", "no")], ids=lambda c: c.name)  # fmt: skip
def test_left_alone(case: FormCase) -> None:
    assert rewritten(case.code) == ast.unparse(ast.parse(case.code))


@pytest.mark.parametrize(
    ("collection", "text", "expected"),
    [
        ({"hpu"}, "hpu", True), ({"hpu": 1}, "cuda", True), (["hpu:0"], "cuda:0", True),
        (["hpu:0"], "cuda", False), ("on hpu:0", "cuda:0", True), ("shpunk", "cuda", False),
        (map(str, ["hpu"]), "cuda", True), (map(str, ["hpu"]), "cpu", False), ([1], 1, True), ([Device("hpu")], "cuda", False),
    ],
)  # fmt: skip
def test_what_holds_cuda(collection: Any, text: Any, expected: bool) -> None:
    assert widened.holds(collection, text) is expected


def test_a_table_that_nobody_changes_gets_no_entry() -> None:
    counts = collections.defaultdict(int, {"cpu": 1})
    assert widened.looked_up(counts, "get", "hpu") is None
    assert widened.entry(counts, "hpu") == "hpu" and widened.entry(counts, "cuda:1") == "cuda:1"
    assert dict(counts) == {"cpu": 1}
    told = pickle.loads(pickle.dumps(widened.shown_as_cuda("cuda".__eq__)))
    assert [told(text) for text in ("hpu", "cpu", "cuda")] == [True, False, True]


def test_an_attribute_by_device() -> None:
    owner = types.SimpleNamespace(run_cuda=1, hpu=2, cuda=3)
    assert widened.attribute(owner, "run_hpu") == 1 and widened.attribute(owner, "hpu") == 2
    assert widened.attribute(owner, "run_cpu", None) is None and not widened.has_attribute(
        owner, "x"
    )
    owner.__name__ = "torch"
    assert widened.attribute(owner, "hpu") == 3 and widened.has_attribute(owner, "run_hpu")


def test_a_word_follows_where_the_program_says_nothing_of_hpu() -> None:
    assert rewritten('if mode == "cuda":\n    pass') == "if mode in ('cuda', 'hpu'):\n    pass"
    assert "('cuda', 'hpu')" not in rewritten('MODES = ["hpu"]\nif mode == "cuda":\n    pass')


def test_lines_stay_and_sites_are_told() -> None:
    source = (
        '"""Doc."""\nfrom __future__ import annotations\nif (x.device\n    .type == "cuda"):\n    pass\n'
        'if str(x.device)[:4] == "cuda":\n    raise ValueError\n'
    )
    tree, done = rewrite.apply(ast.parse(source))
    assert [(one.line, one.before) for one in done] == [
        (3, "x.device.type == 'cuda'"),
        (6, "str(x.device)[:4] == 'cuda'"),
    ]
    assert ast.get_docstring(tree) == "Doc."
    compile(tree, "<sites>", "exec")
    assert tree.body[-1].body[0].lineno == 7  # type: ignore[attr-defined]


def test_source_that_does_not_parse() -> None:
    assert rewrite.find("def (") == [] and rewrite.find(b"\xff\xfe\x00") == []
    assert rewrite.find("x = " + "(" * 90 + "1" + ")" * 90 + " == 'cuda'") == []
    assert rewrite.find("x = 'cuda' == " + "-" * 5000 + "1") == []
