"""The agnostic style: the device at hand, and which one it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from agnostic import HEAD, NEEDED, body, written, written_for

from hpushim.engine.project import migrate
from hpushim.model import Target

#: What holds the device, around the statements of a function that already moves ``y`` there.
HOLDERS = {
    "device": "def f(x, y, m, device):\n    {use}\n    y = y.to(device)\n    return x, y",
    "args.device": "def f(x, y, m, args):\n    {use}\n    y = y.to(args.device)\n    return x, y",
    "self.device": "class A(B):\n    def f(self, x, y, m):\n        {use}\n        return x, y\n    def g(self, y):\n        return y.to(self.device)",
    "self.model.device": "class A:\n    def __init__(self, model):\n        self.model = model\n    def f(self, x, y, m):\n        {use}\n        return x, y\n    def g(self, y):\n        return y.to(self.model.device)",
    "accelerator.device": "from accelerate import Accelerator\ndef f(x, y, m):\n    accelerator = Accelerator()\n    {use}\n    return x, y",
    "settings.DEVICE": "import settings\ndef f(x, y, m):\n    {use}\n    return x, y\ndef g(y):\n    return y.to(settings.DEVICE)",
}  # fmt: skip


USES = {
    "x = x.cuda()": "x = x.to({0})",
    "x = x.cuda(non_blocking=True)": "x = x.to({0}, non_blocking=True)",
    'x = torch.zeros(2, device="cuda")': "x = torch.zeros(2, device={0})",
    'x = x.to("cuda")': "x = x.to({0})",
    "s = torch.is_autocast_enabled()": "s = torch.is_autocast_enabled({1})",
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("use", USES)
def test_what_other_things_are_moved_to_is_reused(holder: str, use: str) -> None:
    kind = f"{holder}.type" if holder == "accelerator.device" else f"torch.device({holder}).type"
    after = USES[use].format(holder, kind)
    assert body(HOLDERS[holder].format(use=use)) == HOLDERS[holder].format(use=after)


@pytest.mark.parametrize(
    "text",
    [
        # it may be none, is a tensor's that may lie on the CPU, is the CPU, comes later, is of another function or object
        "def f(x, y, device=None):\n    x = x.cuda()\n    return x, y.to(device)",
        "def f(x, y, device=None):\n    x = x.cuda()\n    device = device or g()\n    return x, y.to(device)",
        "def f(self, i):\n    i = i.to(self.data.device)\n    return self.data[i].cuda()",
        'device = torch.device("cpu")\ndef f(x, y):\n    x = x.cuda()\n    return x, y.to(device)',
        "def f(x, y, cpu_device):\n    x = x.cuda()\n    return x, y.to(cpu_device)",
        "def f(x):\n    return x.cuda()\ndef g(y, device):\n    return y.to(device)",
        "class A(B):\n    def __init__(self, x):\n        self.x = x.cuda()\n    def f(self, y):\n        return y.to(self.device)",
        "class A(B):\n    def f(self, x):\n        return x.cuda()\n    def set(self, y, device):\n        self.device = device\n        return y.to(self.device)",
    ],
)  # fmt: skip
def test_what_may_be_another_device_is_not(text: str) -> None:
    after = written(HEAD + text).text
    assert any(word in after for word in ("_device()", "current_accelerator()"))


@pytest.mark.parametrize("made", ["torch.rand(x.size(0))", "torch.zeros(2, *x.shape[1:])", "torch.ones(x.shape[0], 2)"])  # fmt: skip
@pytest.mark.parametrize(("line", "same"), [("", True), ("x = x + 1", True), ("x = x.cpu()", False), ("x = x.cuda()", False), ("nn.utils.rnn.pack_padded_sequence(y, x)", False)])  # fmt: skip
def test_a_new_tensor_of_the_size_of_another_goes_where_that_is(made: str, line: str, same: bool) -> None:  # fmt: skip
    text = f"class A(nn.Module):\n    def forward(self, x, y):\n        a = {made}.cuda()\n        {line}\n        return a"
    assert (f"{made}.to(x.device)" in body(text)) is same


@pytest.mark.parametrize("size", ["n = x.size(0)", "n = x.shape[0]", "n, m = x.shape", "n, m = x.size()", "n = len(y)", "n = 3"])  # fmt: skip
@pytest.mark.parametrize("made", ["torch.arange(n)", "torch.arange(n).unsqueeze(0).repeat(2, 1)", "torch.zeros(2, n)"])  # fmt: skip
def test_a_size_is_known_by_its_name(size: str, made: str) -> None:
    text = f"class A(nn.Module):\n    def forward(self, x, y):\n        {size}\n        return {made}.cuda()"
    assert ("device=x.device" in body(text) or f"{made}.to(x.device)" in body(text)) is ("x" in size)  # fmt: skip


@pytest.mark.parametrize("base", ["Base", "Middle"])
def test_the_device_of_a_base_class_is_reused(tmp_path: Path, base: str) -> None:
    (tmp_path / "base.py").write_text("import torch\n\n\nclass Base:\n    def __init__(self, opt):\n        self.device = torch.device('cuda' if opt['gpus'] else 'cpu')\n\n\nclass Middle(Base):\n    pass\n")  # fmt: skip
    (tmp_path / "model.py").write_text(f"import torch\nfrom base import {base}\n\n\nclass Model({base}):\n    def __init__(self, opt, x):\n        super().__init__(opt)\n        self.x = x.cuda()\n\n    def step(self, y):\n        return y.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "model.py").read_text()
    assert after.count(".to(self.device)") == 2 and "accelerator" not in after


@pytest.mark.parametrize("before", ["x = x * 2", "x = torch.relu(x)", "x = torch.cat([x, y])"])
def test_what_is_computed_of_tensors_is_where_they_are(before: str) -> None:
    text = f"class A(nn.Module):\n    def forward(self, x, y):\n        {before}\n        a = torch.zeros(x.shape[0], 1).cuda()\n        return a + x"
    assert "torch.zeros(x.shape[0], 1).to(x.device)" in body(text)


@pytest.mark.parametrize("asked", ["x.is_cuda", 'x.device.type == "cuda"', "x.is_cuda and many", 'x.device.type == "cuda" and many'])  # fmt: skip
@pytest.mark.parametrize(("move", "there"), [("return y.cuda()", "return y.to(x.device)"), ("y = y.cuda(non_blocking=True)", "y = y.to(x.device, non_blocking=True)"), ('y = torch.ones(2, device="cuda")', "y = torch.ones(2, device=x.device)")])  # fmt: skip
@pytest.mark.parametrize("between", ["", "x = x.cpu()"])
def test_what_is_moved_where_a_tensor_is_goes_to_its_device(asked: str, move: str, there: str, between: str) -> None:  # fmt: skip
    after = body(f"def f(x, y):\n    if {asked}:\n        {between or 'pass'}\n        {move}\n    return y")  # fmt: skip
    assert (there in after) is not bool(between)
    assert 'x.device.type != "cpu"' in after


#: What reads the number in the text of a device, and what does not.
READS = {
    "if str(gpu) not in device:\n    raise ValueError": True,
    'if ":" in device:\n    pass': True,
    'kind, number = device.split(":")': True,
    "number = int(device[-1])": True,
    'if device == "cuda:0":\n    pass': True,
    "x = x.to(device)": False,
    "for each in device:\n    pass": False,
    'if "cuda" in device:\n    pass': False,
    "": False,
}


@pytest.mark.parametrize("use", ['device = "cuda:0" if torch.cuda.is_available() else "cpu"', 'device = "cpu"\nif torch.cuda.is_available():\n    device = "cuda:0"'])  # fmt: skip
@pytest.mark.parametrize("files", [{}, {"requirements.txt": "torch==1.9.1\n"}])
@pytest.mark.parametrize("reads", READS)
def test_a_number_stays_where_the_project_reads_it(tmp_path: Path, reads: str, files: dict[str, str], use: str) -> None:  # fmt: skip
    body = reads.replace("\n", "\n    ") or "pass"
    net = {"net.py": f"import torch\n\n\ndef f(x, device, gpu):\n    {body}\n"}
    after = written_for(tmp_path, {**files, **net}, f"import torch\n\n{use}\n")
    assert ('.type}:0"' in after) is READS[reads]
    assert "cuda:0" not in after


@pytest.mark.parametrize("use", ["ctx.dim = 1", "ctx.size = x.size()", "ctx.detach = None"])
def test_the_context_of_a_function_is_no_tensor(use: str) -> None:
    text = f"class F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, x):\n        {use}\n        with torch.cuda.amp.autocast(enabled=False):\n            return x.detach() * ctx.dim, ctx.size, ctx.detach"
    assert "autocast(device_type=x.device.type, enabled=False)" in body(text)


@pytest.mark.parametrize(("other", "kept"), [("y = x.cuda()", True), ("y = x", False)])
def test_the_device_is_kept_where_each_branch_needs_it(other: str, kept: bool) -> None:
    text = f"def f(x, xs, many):\n    if many:\n        for x in xs:\n            y = x.cuda()\n    else:\n        {other}\n    return y"
    assert (
        f"many):\n    {NEEDED}" in body(text)
        if kept
        else f"if many:\n        {NEEDED}" in body(text)
    )


CHOSEN = {
    'opt["n"] != 0': True,
    "args.gpu >= 0 and not args.cpu": True,
    "wants(args)": True,
    "use_cuda": True,
    "not args.cpu": True,
    "args.gpu >= 0 and torch.cuda.is_available()": False,
}


@pytest.mark.parametrize("place", ["device = {0}", "self.device = {0}", "return {0}"])
@pytest.mark.parametrize("test", CHOSEN)
def test_no_device_is_taken_apart_to_be_built_again(test: str, place: str) -> None:
    made = place.format(f'torch.device("cuda" if {test} else "cpu")')
    after = body(f"def f(self, opt, args, use_cuda):\n    {made}")
    assert ("torch.device(accelerator_device().type" in after) is False
    assert (f'accelerator_device() if {test} else torch.device("cpu")' in after) is CHOSEN[test]


#: A method of the class called as a tensor's, how else the class is used, and a device that another class stores.
OWN = ["self.stft(x)", "self.matmul(x)", "self.clamp(x)", "self.log(x)"]
BLOCKS = {
    "with torch.cuda.amp.autocast(enabled=False):\n            x = {0}": "device_type=x.device.type",
    "with torch.cuda.amp.autocast():\n            y = {0}": "device_type=x.device.type",
    'with torch.autocast("cuda", enabled=False):\n            x = {0}': "torch.autocast(x.device.type",
    "y = {0}\n        z = torch.rand(self.size(0)).cuda()": "z = torch.rand(self.size(0)).to(",
}  # fmt: skip
STORES = {
    "nothing": "",
    "another module's base": "class Module:\n    def __init__(self, device):\n        self.device = device\n",
    "stored later": "class Base(nn.Module):\n    def to(self, device):\n        self.device = device\n",
}


@pytest.mark.parametrize("stored", STORES)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("own", OWN)
def test_a_module_without_a_device_is_not_asked_for_it(tmp_path: Path, own: str, block: str, stored: str) -> None:  # fmt: skip
    base = "Base" if stored == "stored later" else "nn.Module"
    taken = "from base import Base\n" if base == "Base" else ""
    text = f"{HEAD}{taken}class A({base}):\n    def forward(self, x):\n        x = x - x.mean()\n        {block.format(own)}\n        return x\n"
    after = written_for(tmp_path, {"base.py": f"import torch.nn as nn\n{STORES[stored]}"}, text)
    assert "self.device" not in after
    assert BLOCKS[block] in after
