"""What is put together of an expression and more around it means the same, whatever the expression is: in parentheses where it needs them."""

from __future__ import annotations

import ast

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
