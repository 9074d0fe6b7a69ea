"""Training steps, shapes and dtypes in forms that unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

import pytest
from crossed import crossed
from one_text import settled, severities

OWN = ["device = torch.device('cpu')", "device = 'cpu'", "dev = torch.device('cpu')"]
PLACED = ["model = model.to({0})", "x = torch.ones(2, device={0})", "x = x.to(device={0})"]


@pytest.mark.parametrize(("made", "use"), crossed(OWN, PLACED, rounds=3))
def test_a_function_that_trains_on_the_cpu_gets_no_mark(made: str, use: str) -> None:
    placed = use.format(made.split(maxsplit=1)[0])
    body = f"    {made}\n    {placed}\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"
    other = "def g(x):\n    return x.cuda()\n\n\n"
    text = f"import torch\n\n\n{other}def f(model, x, optimizer):\n{body}"
    assert "mark_step" not in settled(text)[0]
    assert "mark_step" in settled(text.replace("'cpu'", "'cuda'"))[0]
    assert "mark_step" in settled(text.replace("'cpu'", "args.device"))[0]
    assert "mark_step" in settled(text.replace(f"    {made}\n", "").replace("(model, x,", f"(model, x, {made.split(maxsplit=1)[0]},"))[0]  # fmt: skip


@pytest.mark.parametrize("moved", ["m.to('cpu')", "m = m.cpu()", "m = m.to(torch.device('cpu'))", "m = m.to(device='cpu')", "m.eval().cpu(); m.cpu()"])  # fmt: skip
@pytest.mark.parametrize("exported", ["torch.jit.script(m)", "torch.jit.trace(m, x)", "torch.onnx.export(m, x, 'a.onnx')"])  # fmt: skip
def test_what_was_moved_to_the_cpu_is_exported_there(moved: str, exported: str) -> None:
    text = f"import torch\n\n\ndef f(m, x):\n    m = m.cuda()\n    {moved}\n    {exported}\n"
    assert "HPU512" not in settled(text)[1]
    assert "HPU512" in settled(text.replace(moved, "m.eval()"))[1]
    assert "HPU512" in settled(text.replace(f"    {exported}", f"    m = m.cuda()\n    {exported}"))[1]  # fmt: skip


@pytest.mark.parametrize("declared", ["default=None", "default='model.onnx'", "help='path of the model'"])  # fmt: skip
@pytest.mark.parametrize("option", ["--fp16", "--fp16-model", "--half"])
def test_an_option_that_takes_a_text_selects_no_dtype(declared: str, option: str) -> None:
    text = f"import argparse, torch\n\np = argparse.ArgumentParser()\np.add_argument({option!r}, {declared})\ntorch.ones(2).cuda()\n"
    assert "HPU214" not in settled(text)[1]
    assert "HPU214" in settled(text.replace(declared, "action='store_true'"))[1]


@pytest.mark.parametrize("back", ["float", "double"])
@pytest.mark.parametrize("model", ["model", "ckpt['model']", "copy.deepcopy(model)"])
def test_what_is_only_rounded_to_float16_is_not_told(model: str, back: str) -> None:
    text = f"import copy, torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\n{model}.half().{back}()\n"
    assert "HPU208" not in settled(text)[1]
    assert "HPU208" in settled(text.replace(f".{back}()", ""))[1]


@pytest.mark.parametrize("read", ["out.cpu().numpy()", "out.detach().cpu().numpy()", "numpy.asarray(out.cpu().numpy())"])  # fmt: skip
@pytest.mark.parametrize("made", ["torch.zeros(2, device='cuda')", "torch.zeros(2, dtype=torch.float32, device='cuda')", "torch.ones(3).cuda()", "torch.zeros(2, dtype=torch.float16, device='cuda')", "m(x.cuda())"])  # fmt: skip
def test_what_is_made_in_full_precision_stays_so_for_numpy(made: str, read: str) -> None:
    text = f"import numpy, torch\n\n\ndef f(m, x):\n    with torch.autocast('cuda'):\n        out = {made}\n        out += 1\n    return {read}\n"
    assert ("HPU120" in settled(text)[1]) == ("16" in made or "m(x" in made)
    other = text.replace("with torch.autocast('cuda'):", "if m:").replace("torch.float16", "None")
    assert "HPU120" not in settled(other)[1]
    assert "HPU120" not in settled(other.replace("+= 1", "+= numpy.float16(1)"))[1]


@pytest.mark.parametrize("made", ["torch.zeros(2).cpu()", "torch.zeros(1, n, device='cuda').cpu()", "torch.relu(x).cpu()"])  # fmt: skip
def test_what_is_made_on_the_host_is_not_read_from_the_device(made: str) -> None:
    text = f"import torch\nfrom torch import nn\n\n\nclass M(nn.Module):\n    def forward(self, m, x, n):\n        h = {made}\n        return m(x.cuda(), h)\n"
    assert ("HPU513" in settled(text)[1]) == (made != "torch.zeros(2).cpu()")


COUNTED = [
    "for i in range(0, n, size)",
    "for i in trange(0, n, size)",
    "for i in tqdm(range(0, len(x), size))",
]
SLICED = ["x[i : i + size]", "x[i : min(i + size, n)]", "x[i : i + min(n - i, size)]"]
USES = {"y = m({0}.to(device))": "{0}", "part = {0}\n        m(part.cuda())": "{0}", "m({0}.cuda()).mean().backward()": "{0}"}  # fmt: skip


@pytest.mark.parametrize(("loop", "part", "use"), crossed(COUNTED, SLICED, list(USES), rounds=3))
def test_the_last_of_several_slices_may_be_shorter(loop: str, part: str, use: str) -> None:
    text = f"import torch\nfrom tqdm import tqdm, trange\n\n\ndef f(m, x, n, size, device):\n    {loop}:\n        {use.format(part)}\n"
    assert severities(text, "HPU526") == ["note"]
    assert not severities(text.replace(", size)", ", 1)"), "HPU526")  # one at a time
    assert not severities(text.replace(".to(device)", "").replace(".cuda()", ""), "HPU526")


TIMES = [
    "torch.linspace(1, 0, n, device=device)",
    "torch.cat([x, x.new_zeros([1])])",
    "x.flip(0).to(device)",
]
TURNS = ["for i in range(n)", "for i in trange(n - 1)", "for i, _ in enumerate(range(n))"]


@pytest.mark.parametrize(("times", "turn", "step"), crossed(TIMES, TURNS, ["x = model(x, times[i])", "x = go(model_fn, x, times[i])", "x = x - self.net(x) * times[i]"], rounds=3))  # fmt: skip
def test_a_tensor_that_a_sampling_loop_counts_through_is_told(times: str, turn: str, step: str) -> None:  # fmt: skip
    text = f"import torch\nfrom tqdm import trange\n\n\n@torch.no_grad()\ndef f(self, model, model_fn, go, x: torch.Tensor, n, device):\n    x = x.to(device)\n    times = {times}\n    {turn}:\n        {step}\n    return x\n"
    assert severities(text, "HPU528") == ["note"]
    assert not severities(text.replace("times[i]", "times[0]"), "HPU528")
    assert not severities(text.replace(f"times = {times}", "times = [0.5] * n"), "HPU528")
    assert not severities(text.replace("@torch.no_grad()\n", ""), "HPU528")


@pytest.mark.parametrize("called", ["callback({0})", "print({0})", "log_batch({0})", "preprocess({0})", "decode_it({0})"])  # fmt: skip
@pytest.mark.parametrize("given", ["x", "1, x", "x, steps"])
def test_what_is_only_shown_a_batch_is_no_model(called: str, given: str) -> None:
    text = f"import torch\n\n\n@torch.no_grad()\ndef f(loader, device, callback, log_batch, preprocess, decode_it, steps):\n    for x in loader:\n        x = x.to(device)\n        {called.format(given)}\n"
    assert bool(severities(text, "HPU505")) == called.startswith("decode")


COUNTED_INTO = ["torch.full((n,), {0}, device=device)", "torch.tensor([{0}] * n, device=device)", "torch.full((n, 1), alphas[{0}], device=device)"]  # fmt: skip
SAMPLED = [
    "turns = list(range(n))[::-1]\n    for i in turns:\n        x = self.p_sample(x, {0})",
    "for i in reversed(range(n)):\n        x = self.p_sample(x, {0})",
    "for k, i in enumerate(tqdm(steps)):\n        t = {0}\n        x = model(x, t)",
    "for k in trange(n):\n        i = n - k - 1\n        x = denoise(model, x, {0})",
    "for k, _ in enumerate(steps):\n        i = n - k\n        x = self.sample_one(model, x, i, n, device, alphas)",
]
ONE = "    def sample_one(self, model, x, i, n, device, alphas):\n        return model(x, {0})\n"


@pytest.mark.parametrize(("number", "loop"), crossed(COUNTED_INTO, SAMPLED, rounds=3))
def test_a_tensor_made_of_the_number_of_a_turn_is_told(number: str, loop: str) -> None:
    made = number.format("i")
    text = f"import torch\nfrom tqdm import tqdm, trange\n\n\nclass S:\n{ONE.format(made)}\n    @torch.no_grad()\n    def f(self, model, denoise, x, n, steps, alphas, device):\n        {loop.format(made).replace(chr(10), chr(10) + '    ')}\n        return x.to(device)\n"
    assert severities(text, "HPU528") == ["note"]
    assert not severities(text.replace(made, number.format("7")), "HPU528")
    assert not severities(text.replace(", device=device)", ")"), "HPU528")
    assert not severities(text.replace("    @torch.no_grad()\n", ""), "HPU528")


SCOPES = ["autocast if opt.amp else nullcontext", "nullcontext if opt.full else torch.autocast", "{'a': autocast, 'b': nullcontext}[opt.kind]"]  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("use", ["with scope('cuda'):", "with torch.no_grad(), scope('cuda'):"])
def test_an_autocast_that_is_chosen_takes_its_device(scope: str, use: str) -> None:
    text = f"import torch\nfrom contextlib import nullcontext\nfrom torch import autocast\n\n\ndef f(m, x, opt):\n    scope = {scope}\n    {use}\n        return m(x.cuda())\n"
    done, codes = settled(text)
    assert "scope('hpu')" in done
    assert "HPU010" not in codes
    assert "scope('cuda')" in settled(text.replace(scope, "opt.scope"))[0]


#: What is done with a loaded value, and whether that shows another object than torch loads by itself.
LOADED = {
    "model.eval()": True,
    "return model(x)": True,
    "return model.parameters()": True,
    "return model['args'].lr": True,
    "args = model['args']\n    return args.lr": True,
    "args = model['args']\n    for i in range(args.steps):\n        x = x * 2": True,
    "self.net = model\n    return self.net(x)": True,
    "self.step = model['step']\n    return other.step(x)": False,
    "return model['state'].items()": False,
    "return model.cuda().eval()": True,
    "model = model.cuda()\n    return model.eval()": True,
    "for i in x:\n        model = model.cuda()\n        model = model.float()\n    return model.item()": False,
    "state = model['state']\n    for key in state:\n        state[key] = state[key].cpu()\n    return state": False,
    "return model['net'].to('cpu').float().eval()": True,
    "net = model['net'].cuda()\n    return net(x)": True,
    "return model['mean'].cuda().float().item()": False,
    "opts = model['opts']\n    opts.update(vars(net))\n    opts = Namespace(**opts)\n    return opts.lr": False,
    "opts = model['opts']\n    opts = Namespace(**opts)\n    print(opts)\n    return opts.lr": False,
    "opts = model['opts']\n    opts = EasyDict(opts)\n    return opts.lr": False,
    "model = torch.nn.DataParallel(model)\n    return model(x)": True,
    "return model.keys()": False,
    "return model.shape": False,
    "return model['acc'].item()": False,
    "net.load_state_dict(model)": False,
    "if hasattr(model, 'module'):\n        model = model.module\n    return model": False,
    "return model.state_dict() if isinstance(model, torch.nn.Module) else model": False,
}  # fmt: skip
LOADS = ["torch.load(path)", "torch.load(path, map_location='cpu')", "torch.load(open(path, 'rb'), 'cpu')"]  # fmt: skip


@pytest.mark.parametrize(("use", "load"), crossed(LOADED, LOADS, rounds=2))
@pytest.mark.parametrize("style", ["native", "agnostic"])
def test_an_object_that_is_loaded_is_not_loaded_by_default(use: str, load: str, style: str) -> None:
    text = (
        f"import torch\n\n\ndef f(path, x, net):\n    x = x.cuda()\n    model = {load}\n    {use}\n"
    )
    assert ("HPU615" in settled(text, style=style)[1]) is LOADED[use]
    given = text.replace(load, f"{load[:-1]}, weights_only=True)")
    assert "HPU615" not in settled(given, style=style)[1]


#: What an int is made of in a forward pass, and whether it reads a tensor.
SHARES = {
    "length * (1 - ratio)": False,
    "ratio * x.size(0)": False,
    "len(x) // ratio": False,
    "x.size(1) * 0.5": False,
    "x.mean() * length": True,
    "length / x.sum()": True,
    "x.sum()": True,
}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("shape", ["rows, length, width = x.shape", "length = x.shape[1]", "length = x.size(1)"])  # fmt: skip
@pytest.mark.parametrize("taken", ["ratio", "ratio=0.75"])
def test_a_share_of_a_length_is_no_read(share: str, shape: str, taken: str) -> None:
    text = (
        f"import torch\n\n\nclass M(torch.nn.Module):\n    def mask(self, x, {taken}):\n        {shape}\n        return x[:, : int({share})]\n\n"
        "    def forward(self, x, ratio=0.8):\n        return self.mask(x, ratio)\n\n\n"
        "m = M().cuda()\nfor x in range(3):\n    m(torch.ones(2, 3, 4).cuda()).sum().backward()\n"
    )
    assert ("HPU513" in settled(text)[1]) == SHARES[share]


#: What is spread into the places of sizes or dimensions, and whether the host has to read it.
SPREAD = {
    "torch.tensor([1, 0], device=x.device)": True,
    "torch.cat((torch.tensor([1], device=x.device), torch.arange(1, device=x.device)))": True,
    "torch.argsort(x.sum(0))[:2]": True,
    "[1, 0]": False,
    "x.shape": False,
    "range(2)": False,
    "reversed(x.size())": False,
}
SPREADING = ["x.permute(*{})", "x.view(*{}, -1)", "x.repeat(1, *{})", "torch.zeros(*{})", "x.new_zeros(*{})", "x.flip(*{})"]  # fmt: skip


@pytest.mark.parametrize(("made", "use"), crossed(list(SPREAD), SPREADING, rounds=3))
@pytest.mark.parametrize("named", [True, False])
def test_a_tensor_that_is_spread_into_sizes_is_read(made: str, use: str, named: bool) -> None:
    head, given = (f"        a = {made}\n", "a") if named else ("", made)
    step = f"    for x in loader:\n        x = x.to('cuda')\n{head}        y = {use.format(given)}\n        net(x, y).backward()\n"
    look = f"        a = {made}\n    return {use.format(given)}\n" if named else f"        pass\n    return {use.format(made)}\n"  # fmt: skip
    text = "import torch\n\n\ndef f(net, loader):\n"
    assert ("HPU513" in settled(text + step)[1]) == SPREAD[made]
    assert "HPU513" not in settled("import torch\n\n\ndef look(x):\n    x = x.cuda()\n    for _ in x:\n" + look)[1]  # fmt: skip


@pytest.mark.parametrize("spreading", SPREADING)
@pytest.mark.parametrize(("name", "read"), [("shape", False), ("output_shape", False), ("order", True)])  # fmt: skip
def test_sizes_that_a_forward_pass_is_given_are_not_read(spreading: str, name: str, read: bool) -> None:  # fmt: skip
    text = (
        "import torch\n\n\nclass Sum(torch.nn.Module):\n"
        f"    def forward(self, x, {name}):\n        return self.net(x) + {spreading.format(name)}\n\n\n"
        "model = Sum().cuda()\nfor x, y in loader:\n    model(x.cuda(), y).sum().backward()\n"
    )
    assert ("HPU513" in settled(text)[1]) == read
