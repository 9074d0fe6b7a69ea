"""The dual style on CUDA: read for CUDA, what is written does what was there, with nothing taken away."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

NAME = "ACCELERATOR"


def dual(text: str, *, unsafe: bool = False) -> str:
    context = Context(Target(style="dual", mode="eager"), load(), unsafe=unsafe)
    after = settle(text, "python", "train.py", context)
    assert not [f for f in after.findings if f.code == "HPU004"]
    assert settle(after.text, "python", "train.py", context).text == after.text
    return after.text


class OnCuda(ast.NodeTransformer):
    """What a program in the dual style is where the constant is ``"cuda"``."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if ast.unparse(node.test) == f"{NAME} == 'hpu'":
            return self.visit(node.orelse)
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if ast.unparse(node) == f"{NAME} != 'hpu'":
            return ast.Constant(True)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node) == f"torch.get_device_module({NAME})":
            return ast.parse("torch.cuda", mode="eval").body
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant("cuda") if node.id == NAME else node


def on_cuda(statement: str) -> str:
    """The last statement of a file in the dual style, as CUDA runs it."""
    after = ast.parse(dual(f"import torch\nimport torch.distributed as dist\n\n{statement}\n"))
    return ast.unparse(ast.fix_missing_locations(OnCuda().visit(after.body[-1])))


VALUES = ["rank", "args.gpu", "self.rank", "0", "1", "ids[0]", "rank % 8", "gpu if many else 0"]
FORMS = {
    "y = x.cuda({0})": "y = x.to({0})",
    "y = x.cuda({0}, non_blocking=True)": "y = x.to({0}, non_blocking=True)",
    "y = x.cuda(device={0})": "y = x.to(device={0})",
    "m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[{0}], output_device={0})": "",
    "m = torch.nn.parallel.DistributedDataParallel(m, [{0}])": "",
    "dist.barrier(device_ids=[{0}])": "",
    "dist.init_process_group('nccl', device_id=torch.device('cuda', {0}))": "",
    "s = torch.load(p, map_location=lambda storage, place: storage.cuda({0}))": "",
}


@pytest.mark.parametrize(("form", "value"), crossed(FORMS, VALUES, rounds=3))
def test_the_number_of_the_card_stays(form: str, value: str) -> None:
    wanted = ast.unparse(ast.parse((FORMS[form] or form).format(value)))
    assert on_cuda(form.format(value)) == wanted


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("o = torch.optim.AdamW(p, fused=True)", ""),
        ("o = torch.optim.AdamW(p, fused=torch.cuda.is_available())", ""),
        ("m = torch.compile(m, mode='max-autotune')", "m = torch.compile(m, backend='inductor', mode='max-autotune')"),
        ("m = torch.compile(m, options={'triton.cudagraphs': True}, backend='inductor')", ""),
        ("s = torch.cuda.amp.GradScaler()", "s = torch.amp.GradScaler('cuda', enabled=True)"),
        ("s = torch.cuda.amp.GradScaler(init_scale=2.0, enabled=amp)", "s = torch.amp.GradScaler('cuda', init_scale=2.0, enabled=amp)"),
        ("s = torch.cuda.amp.GradScaler(2.0, 2.0, 0.5, 10, amp)", "s = torch.amp.GradScaler('cuda', 2.0, 2.0, 0.5, 10, amp)"),
        ("s = torch.amp.GradScaler('cuda', enabled=dtype == 'float16')", ""),
        ("s = torch.amp.GradScaler(device='cuda')", "s = torch.amp.GradScaler(device='cuda', enabled=True)"),
        ("c = torch.autocast('cuda')", "c = torch.autocast('cuda', dtype=torch.float16)"),
        ("c = torch.autocast('cuda', torch.float16)", ""),
        ("c = torch.autocast('cuda', dtype=torch.float16 if half else torch.bfloat16)", ""),
        ("c = torch.autocast('cuda', dtype={'fp16': torch.float16}[kind])", ""),
        ("c = torch.cuda.amp.autocast(enabled=amp)", "c = torch.autocast(device_type='cuda', dtype=torch.float16, enabled=amp)"),
        ("dist.init_process_group('nccl')", ""),
        ("x = torch.zeros(2, device=f'cuda:{rank}')", ""),
        ("x = torch.device('cuda', rank)", ""),
        ("n = torch.cuda.get_device_name(rank)", ""),
        ("torch.cuda.manual_seed_all(0)", "torch.cuda.random.manual_seed_all(0)"),
        ("torch.cuda.empty_cache()", ""),
        ("torch.backends.cudnn.benchmark = True", ""),
        ("e = torch.cuda.Event(blocking=True)", ""),
        ("types = [torch.cuda.FloatTensor]", ""),
        ("x = torch.cuda.FloatTensor(3, 4)", "x = torch.empty(3, 4, dtype=torch.float32, device='cuda')"),
    ],
)  # fmt: skip
def test_what_cuda_had_stays(before: str, wanted: str) -> None:
    assert on_cuda(before) == ast.unparse(ast.parse(wanted or before))


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\n",
        "import importlib\nimport torch\napi = importlib.import_module('torch.cuda')\n",
        "from unittest import mock\nimport torch\nwith mock.patch('torch.cuda.is_available'):\n    pass\n",
    ],
)
def test_what_cuda_reads_by_name_stays(text: str) -> None:
    assert dual(text, unsafe=True) == text


IMPORTED = ["import torch", "import torch as th", "from torch import nn", "if a:\n    import torch", "try:\n    import torch\nexcept ImportError:\n    torch = None", ""]  # fmt: skip
USED = ['device = "cuda"', 'class A:\n    device = "cuda"', 'def f(device="cuda"):\n    x.to(device)', 'def f():\n    x.to("cuda")', 'f = lambda: x.to("cuda")', 'if a:\n    device = "cuda"']  # fmt: skip


@pytest.mark.parametrize(
    ("between", "imported", "used", "first"),
    crossed(["import os", "x = 1", '"""Doc."""'], IMPORTED, USED, [True, False], rounds=8),
)
def test_the_constant_is_there_when_it_is_needed(
    imported: str, used: str, between: str, first: bool
) -> None:
    parts = (
        [imported, between, used]
        if first
        else [between, used, imported, 'if __name__ == "__main__":\n    run()']
    )
    text = "\n".join(part for part in parts if part) + "\n"
    after = dual(text)
    assert NAME in after
    tree = ast.parse(after)
    defined = [n.lineno for s in tree.body if isinstance(s, ast.Assign) for n in ast.walk(s.targets[0]) if isinstance(n, ast.Name) and n.id == NAME]  # fmt: skip
    assert len(defined) == 1, after
    # Names that are read when the file is loaded; what stands in the body of a function waits.
    waiting = {
        name
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.Lambda))
        for part in (function.body if isinstance(function.body, list) else [function.body])
        for name in ast.walk(part)
    }
    read = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n not in waiting and isinstance(n.ctx, ast.Load)]  # fmt: skip
    assert all(n.lineno > defined[0] for n in read if n.id == NAME), after
    # What the definition asks is imported above it, under no condition.
    asked = {n.id for n in read if n.lineno == defined[0] and n.id not in ("hasattr", NAME)}
    above = {a.asname or a.name.partition(".")[0] for s in tree.body if isinstance(s, ast.Import) and s.lineno < defined[0] for a in s.names}  # fmt: skip
    assert asked <= above, after
    cores = [s.lineno for s in tree.body if "habana_frameworks.torch.core" in ast.unparse(s)]
    assert all(line < defined[0] for line in cores) or "find_spec" in after, after


@pytest.mark.parametrize(
    ("asked", "turns"), [("name", True), ("total_memory", True), ("major", False)]
)
def test_properties_that_both_cards_have_are_asked_for_one_by_one(asked: str, turns: bool) -> None:
    code = f'import torch\n\nif torch.cuda.is_available():\n    p = torch.cuda.get_device_properties(0)\n    print(p.{asked})\n    device = "cuda:0"\n'
    after = dual(code)
    assert ("get_device_properties" not in after) is turns
    assert (f'device = f"{{{NAME}}}:0"' in after) is turns
