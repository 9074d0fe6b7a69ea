"""What is put together of an expression and more around it means the same, whatever the expression is: in parentheses where it needs them."""

from __future__ import annotations

import ast
import keyword
import re

import pytest

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

HEAD = "import torch\nt = torch.zeros(2)\nu = torch.zeros(3)\nd: torch.device = t.device\ne: torch.device = u.device\n"
TENSORS = ["(t / u)", "(t if c else u)", "(t or u)", "(-t)", "(t @ u)", "t.view(2)", "[t][0]", "(k := t)"]  # fmt: skip
TYPES = ["(d.type if c else e.type)", "(d.type or e.type)", "(k := d.type)", "[d.type][0]", "(d if c else e).type"]  # fmt: skip
FORMS = {
    "x = {}.cuda": TENSORS,
    "x = 1 | {}.cuda": TENSORS,
    "x = {} == 'cuda'": TYPES,
    "x = {} != 'cuda' and y": TYPES,
    "x = 'cuda' == {}": TYPES,
    "x = {} in ('cuda', 'xpu')": TYPES,
    "x = {}[:4] == 'cuda'": TYPES,
    "x = not {}.startswith('cuda')": TYPES,
}


def _value(code: str, style: str) -> ast.expr:
    done = settle(f"{HEAD}{code}\n", "python", "a.py", Context(Target(style=style), load(), unsafe=True))  # type: ignore[arg-type]  # fmt: skip
    last = ast.parse(done.text).body[-1]
    assert isinstance(last, ast.Assign)
    return last.value


class _With(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = ast.dump(ast.parse(old, mode="eval").body), new

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and ast.dump(node) == self._old:
            return ast.parse(self._new, mode="eval").body
        return self.generic_visit(node)


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
@pytest.mark.parametrize(("form", "filling"), [(f, each) for f, fillings in FORMS.items() for each in fillings])  # fmt: skip
def test_an_expression_stays_one(form: str, filling: str, style: str) -> None:
    plain = "t" if FORMS[form] is TENSORS else "d.type"
    code = form.format(filling)
    found = _value(code, style)
    if ast.dump(found) == ast.dump(ast.parse(code).body[0].value):  # type: ignore[attr-defined]
        return  # left as it is
    wanted = _With(plain, filling).visit(_value(form.format(plain), style))
    assert ast.unparse(found) == ast.unparse(wanted)


@pytest.mark.parametrize("name", ["torch.Tensor.cuda", "torch.nn.Module.cuda"])
@pytest.mark.parametrize("form", ["{} = f", "{}, y = f, g", "del {}", "for {} in f: pass", "with f as {}: pass", "[{} for {} in f]"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_a_method_that_is_replaced_is_told_and_stays(name: str, form: str, style: str) -> None:
    code = form.format(name, name).replace(f"[{name} for", "[y for")
    done = settle(f"{HEAD}{code}\n", "python", "a.py", Context(Target(style=style), load(), unsafe=True))  # type: ignore[arg-type]  # fmt: skip
    assert done.text.endswith(f"{code}\n")
    assert "HPU102" in {each.code for each in done.findings} and "HPU004" not in {each.code for each in done.findings}  # fmt: skip


def _names() -> list[str]:
    """What the matrix has of torch, by its dotted name."""
    names = {name for row in load().rows for name in ([row.name] if isinstance(row.name, str) else row.name)}  # fmt: skip
    return sorted(n for n in names if re.fullmatch(r"torch(\.[A-Za-z_]\w*)+", n) and not any(map(keyword.iskeyword, n.split("."))))  # fmt: skip


@pytest.mark.parametrize("form", ["{} = f", "{}, *y = f", "del {}", "for {} in f: pass", "with f as {}: pass", "{} += 1", "{}: int = 2", "[0 for {} in f]"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_a_name_that_gets_another_value_is_renamed_or_stays(form: str, style: str) -> None:
    """Every name of the matrix: a call, a literal or a choice cannot be assigned to."""
    text = "import torch\n" + "".join(f"{form.format(name)}\n" for name in _names())
    done = settle(text, "python", "a.py", Context(Target(style=style), load(), unsafe=True))  # type: ignore[arg-type]  # fmt: skip
    assert not [finding.message for finding in done.findings if finding.code == "HPU004"]
    assert len(_names()) > 300 and done.text.count("\n") >= text.count("\n")


@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
@pytest.mark.parametrize("form", ["if {}:\n        x.cuda()", "x.cuda() if {} else x", "if {}:\n        torch.cuda.synchronize()"])  # fmt: skip
def test_whatever_has_the_type_that_is_compared(style: str, form: str) -> None:
    asked = Context(Target(style=style), load())  # type: ignore[arg-type]
    for device in ("t.device", "self.device", "u[0].device", "torch.device(t)", "u().device", "(t or u)", "(await t)", "f'{t}'", "u[device]", "device()"):  # fmt: skip
        for test in ("{}.type == 'cuda'", "{}.type != 'cpu'", "'cuda' == {}.type", "y and {}.type == 'cuda'"):  # fmt: skip
            code = form.format(test.format(device))
            done = settle(f"import torch\nasync def f(self, x, t, u, y):\n    {code}\n", "python", "a.py", asked)  # fmt: skip
            assert ast.parse(done.text)
            assert "HPU004" not in {finding.code for finding in done.findings}, code
