"""What a value may be, by every form in which it may come: a tensor, a module, an optimizer, an array."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path

import pytest
from crossed import crossed

from hpushim.codemods.values.tensors import (
    TENSORS,
    Is,
    Kinds,
    is_count,
    is_mask,
    is_other,
    is_tensor,
    proven,
)
from hpushim.engine.python.module import Module
from hpushim.matrix import load, signatures
from hpushim.model import Target

sys.path.insert(0, str(Path(__file__).parents[1] / "pycode"))

from value_forms import APART, FORMS

MATRIX = load()
HEAD = "import numpy\nimport torch\nfrom torch import nn\n"
FILLINGS = {
    "torch.zeros(3)": Is.TENSOR,
    "torch.rand(3).unsqueeze(0)": Is.TENSOR,
    "(torch.rand(3) > 0)": Is.MASK,
    "torch.from_numpy(given)": Is.CPU,
    "torch.rand(3).cpu()": Is.CPU,
    "nn.Linear(2, 3)": Is.MODULE,
    "torch.optim.SGD(given, 1.0)": Is.OPTIMIZER,
    "torch.rand(3).size()": Is.SIZE,
    "torch.rand(3).numpy()": Is.READ,
    "numpy.zeros(3)": Is.OTHER,
}

#: Calls, items and comparisons of what is only known by its use.
MORE = """
def more(y, mask):
    use(y.unsqueeze(0).shape[0] + 1)
    use(y.numel())
    use(y(mask))
    use(y[mask > 0].to("cpu"))
    use((y.cpu() if mask else y).float())
    use(y[0].eq(3) | ~mask)
    for z in y.chunk(2):
        use(z.max(1)[0] * mask)
    y = y.numpy()
    use(y.item())
"""


def module(code: str) -> Module:
    return Module(HEAD + code, "a.py", Target(), MATRIX)


BITS = [value for name, value in vars(Is).items() if name.isupper()]


def used(code: str) -> list[int]:
    """What each argument of `use` may be, asked bit by bit."""
    text = module(code)
    return [
        sum(bit for bit in BITS if Kinds(text).has(call.args[0], bit))
        for call in text.index.calls("use")
    ]


@pytest.mark.parametrize(("filling", "form"), crossed(FILLINGS, FORMS, rounds=2))
def test_a_kind_comes_with_the_value(form: str, filling: str) -> None:
    found = used(FORMS[form].replace("SOURCE", filling))
    assert any(FILLINGS[filling] & each for each in found)


@pytest.mark.parametrize(("filling", "form"), crossed(FILLINGS, FORMS, rounds=1))
def test_an_answer_does_not_depend_on_what_was_asked_before(form: str, filling: str) -> None:
    chosen = random.Random(form + filling)
    code = FORMS[form].replace("SOURCE", filling) + MORE
    whole = used(code)
    text = module(code)
    asked = [
        (call.args[0], answer, sum(chosen.sample(BITS, chosen.randint(1, 6))))
        for call, answer in zip(text.index.calls("use"), whole, strict=True)
        for _ in range(4)
    ]
    chosen.shuffle(asked)
    kinds = Kinds(text)
    for node, answer, part in asked:
        assert kinds.has(node, part) == bool(answer & part), (node.lineno, part, answer)


@pytest.mark.parametrize("form", APART)
def test_another_value_is_not_of_that_kind(form: str) -> None:
    wanted = APART[form].replace("SOURCE", "torch.optim.SGD(given, 1.0)")
    assert not any(Is.OPTIMIZER & each for each in used(wanted))


def test_what_gives_a_tensor_gives_a_tensor() -> None:
    members = {n: s for n, s in signatures.members("torch.Tensor").items() if s.returns == "tensor"}
    lines = [f"use(x.{n}{'' if s.form == 'attribute' else '(given)'})" for n, s in members.items()]
    found = used("x = torch.rand(3)\n" + "\n".join(lines))
    assert len(found) == len(members) > 400
    others = [
        n
        for n, each in zip(members, found, strict=True)
        if not each & TENSORS or each & ~(TENSORS | Is.LIKELY)
    ]
    assert others == []


@pytest.mark.parametrize("method", ["item", "tolist", "numpy", "size", "dim", "numel", "shape", "ndim", "is_cuda"])  # fmt: skip
def test_what_gives_no_tensor_gives_none(method: str) -> None:
    attribute = signatures.members("torch.Tensor")[method].form == "attribute"
    (found,) = used(f"x = torch.rand(3)\nuse(x.{method}{'' if attribute else '()'})")
    assert found
    assert not found & TENSORS


OWN = """
class Affine:
    def inverse(self):
        return Affine()
    def mode(self):
        return self
"""


@pytest.mark.parametrize(
    "code",
    [
        "use(Affine())",
        "use(Affine().inverse())",
        "a = Affine()\nuse(a.mode())",
        "class B:\n    def __init__(self):\n        self.a = Affine()\n    def f(self):\n        use(self.a.inverse())",
        "def make():\n    return Affine()\nuse(make().mode().inverse())",
    ],
)
def test_an_object_of_a_class_of_the_project_is_no_tensor(code: str) -> None:
    (found,) = used(OWN + code)
    assert not found & (TENSORS | Is.LIKELY | Is.MODULE)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = torch.rand(3)\nuse(x if c else None)", True),
        ("x = torch.rand(3)\nuse(x if c else [])", False),
        ("x = nn.Linear(2, 2)\nuse(x.to(d).half())", True),
        ("def f(x):\n    use(x)", False),
        ("def f(x):\n    use(x)\nf(torch.rand(3))", True),
        ("def f(x: torch.Tensor):\n    use(x + 1)", True),
        ("x = torch.rand(3)\nx = x.numpy()\nuse(x)", True),
        ("use(torch.device('cpu'))", False),
        ("use(torch.load('a')['model'])", False),
        ("values, order = torch.sort(torch.rand(3))\nuse(order)", True),
        ("use([p for p in nn.Linear(2, 2).parameters()][0])", True),
    ],
)
def test_what_is_proven(code: str, expected: bool) -> None:
    text = module(code)
    (call,) = text.index.calls("use")
    assert proven(text, call.args[0]) is expected


MASKS = {
    "x = torch.rand(3)\nm = x > 0\nuse(x, m)": True,
    "x = torch.rand(3)\nm = (x > 0) & (x < 1)\nuse(x, ~m)": True,
    "x = torch.rand(3)\nm = torch.isnan(x).unsqueeze(0)\nuse(x, m)": True,
    "x = torch.rand(3)\nm = x.to(torch.bool)\nuse(x, m)": True,
    "x = torch.rand(3)\nm = x > 0\nm = nn.functional.pad(m, (1, -1))\nuse(x, m)": True,
    "x = torch.rand(3)\nm = x.cpu() > 0\nuse(x, m)": True,
    "x = numpy.zeros(3)\nm = x > 0\nuse(x, m)": False,
    "x = numpy.zeros(3)\nm = x > 0\nx = torch.from_numpy(x)\nuse(x, m)": False,
    "x = given['a']\nm = key == 'b'\nuse(x, m)": False,
    "x = torch.rand(3).cpu()\nm = x > 0\nuse(x, m)": False,
    "x = torch.rand(3)\nm = torch.arange(3)\nuse(x, m)": False,
}


@pytest.mark.parametrize("code", MASKS)
def test_masks_are_of_tensors_on_the_card(code: str) -> None:
    text = module("device = torch.device('cuda')\n" + code)
    (call,) = text.index.calls("use")
    values, mask = call.args
    assert (is_tensor(text, values) and is_mask(text, mask)) is MASKS[code]


def test_a_long_chain_is_followed() -> None:
    chain = "".join(f"x{i + 1} = x{i}.float()\n" for i in range(1500))
    (found,) = used(f"x0 = torch.rand(3)\n{chain}use(x1500)")
    assert found & Is.TENSOR
    assert not found & ~(Is.TENSOR | Is.LIKELY)
    again = "x = x.float()\n" * 1500
    (found,) = used(f"x = torch.rand(3)\n{again}use(x)")
    assert found & Is.TENSOR
    assert not found & ~(Is.TENSOR | Is.LIKELY)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("use(3 * len(rows), 1 + x.size(0))", [True, True]),
        ("use((x.numel() + 31) // 32 * x.shape[0])", [True]),
        ("use(0.75 * numpy.zeros(3), numpy.zeros(3) + 1)", [False, False]),
        ("use([0] * 3, (1,) * n, given * 2, 2 * given)", [False, False, False, False]),
        ("opt = [0.0] * 8\nuse(opt)", [False]),
    ],
)
def test_what_is_worked_out_is_a_number_where_all_its_parts_are(
    code: str, expected: list[bool]
) -> None:
    text = module("n = 4\n" + code)
    (call,) = text.index.calls("use")
    assert [is_count(text, each) for each in call.args] == expected


@pytest.mark.parametrize("move", ["x.cpu()", "x.view(-1).cpu()", "x.cpu().float()"])
def test_what_comes_home_was_a_tensor_of_the_card_before(move: str) -> None:
    text = module(f"device = torch.device('cuda')\ndef f(x):\n    x = {move}\n    return x\n")
    (call,) = text.index.calls("cpu")
    name = next(n for n in ast.walk(call) if isinstance(n, ast.Name))
    assert is_tensor(text, name)
    assert not is_other(text, name)


def test_a_text_of_the_same_name_hides_no_tensor() -> None:
    code = "for a in ['b', 'c']:\n    t = getattr(given, a)\n    t.data = t.data.half()\na = getattr(given, 'd')\na.data = a.data.half()\n"
    text = module(code)
    assert not any(is_other(text, call.func.value) for call in text.index.calls("half"))  # type: ignore[attr-defined]


def test_kinds_are_apart() -> None:
    """One bit each: a value that may be of several kinds differs from each of them."""
    bits = [bit for name, bit in vars(Is).items() if name.isupper()]
    assert all(bit.bit_count() == 1 for bit in bits)
    assert len(set(bits)) == len(bits) > 10
