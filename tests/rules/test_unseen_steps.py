"""What a step is, what precision the project computes in and what a checkpoint holds, in forms that unseen repositories and ports by people showed."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled, severities

from hpushim.engine.project import analyse
from hpushim.model import Finding, Target


def found(root: Path, files: dict[str, str]) -> dict[str, list[Finding]]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {file.path: file.findings for file in analyse([root], target=Target()).files}


def codes(root: Path, files: dict[str, str], path: str) -> set[str]:
    return {each.code for each in found(root, files).get(path, ())}


# -- steps of other things ---------------------------------------------------------------------

OWNERS = {"OptimizerParamScheduler": False, "OptimScheduleLR": False, "ScheduledOptim": True, "OptimizerWrapper": True}  # fmt: skip
STEPPED = [
    "def resume(self, n):\n        self.step(n)",
    "def __init__(self, inner):\n        self.inner = inner\n        self.step(0)",
]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("method", STEPPED)
def test_a_schedule_of_an_optimizer_is_none(owner: str, method: str) -> None:
    text = f"import torch\n\n\nclass {owner}:\n    {method}\n\n    def step(self, n):\n        for group in self.inner.param_groups:\n            group['lr'] = n\n\n\nx = torch.ones(2).cuda()\n"
    assert ("mark_step" in settled(text)[0]) == OWNERS[owner]


BRANCHES = {
    "if (i + 1) % n == 0:\n            g(x).backward()\n            show({0})": True,
    "if i % n == 0:\n            g_optimizer.step()\n            show({0})": True,
    "if i % n == 0:\n            show({0})": False,
    "if i % n == 0:\n            show({0})\n        else:\n            g(x).backward()": False,
    "if i % n == 0:\n            if i % (10 * n) == 0:\n                show({0})\n            g(x).backward()": False,
}


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("read", ["x.sum().item()", "x.mean().detach().cpu().numpy()"])
def test_a_branch_that_runs_backward_is_a_step(branch: str, read: str) -> None:
    text = f"import torch\n\n\ndef f(d, g, data, n, g_optimizer, optimizer):\n    for i, x in enumerate(data):\n        x = x.cuda()\n        d(x).backward()\n        optimizer.step()\n        {branch.format(read)}\n"
    assert ("HPU513" in settled(text)[1]) == BRANCHES[branch]


LOSSES = {
    "class Base(_Loss):\n    pass": "from torch.nn.modules.loss import _Loss",
    "class Base(nn.CrossEntropyLoss):\n    pass": "from torch import nn",
    "class Base(nn.Module):\n    pass": "from torch import nn",
}
USERS = {"device = 'cuda'\n": True, "device = 'cpu'\n": False}


@pytest.mark.parametrize(("base", "user", "read"), crossed(list(LOSSES), list(USERS), ["loss.item()", "loss.long().sum().item()"], rounds=2))  # fmt: skip
def test_a_criterion_is_read_for_the_device_of_another_file(tmp_path: Path, base: str, user: str, read: str) -> None:  # fmt: skip
    files = {
        "base.py": f"{LOSSES[base]}\n\n\n{base}\n",
        "crit.py": f"import torch.nn.functional as F\n\nfrom base import Base\n\n\nclass Own(Base):\n    def forward(self, model, x):\n        loss = F.mse_loss(model(x), x)\n        return loss, {{'loss': {read}}}\n",
        "train.py": f"from crit import Own\n\n{user}",
    }
    assert ("HPU513" in codes(tmp_path, files, "crit.py")) == USERS[user]


PADDED = {
    "self.tokenizer(texts, padding=True)": True,
    "self.tokenizer(texts, padding='longest')": True,
    "self.processor(text=texts, padding=True)": True,
    "self.processor(images=texts, padding=True)": False,
    "self.tokenizer(texts, padding='max_length')": False,
}


@pytest.mark.parametrize("padded", PADDED)
@pytest.mark.parametrize("user", USERS)
def test_padding_in_a_module_that_another_file_moves(tmp_path: Path, padded: str, user: str) -> None:  # fmt: skip
    files = {
        "words.py": f"from torch import nn\nfrom transformers import AutoTokenizer\n\n\nclass Words(nn.Module):\n    def __init__(self, name):\n        self.tokenizer = self.processor = AutoTokenizer.from_pretrained(name)\n\n    def tokenize(self, texts):\n        return {padded}\n",
        "train.py": f"from words import Words\n\n{user}",
    }
    assert ("HPU525" in codes(tmp_path, files, "words.py")) == (PADDED[padded] and USERS[user])


# -- precision ---------------------------------------------------------------------------------

OPTIONS = {
    "p.add_argument('--fp16', action='store_true')": "",
    "m = whisperx.load_model('a', compute_type='float16')": "import whisperx\n",
}
OTHERS = {"": False, "x = x.half()\n": True, "with torch.autocast('cuda'):\n    pass\n": True}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("other", OTHERS)
def test_a_project_that_computes_in_full_precision(tmp_path: Path, option: str, other: str) -> None:
    text = f"import torch\n{OPTIONS[option]}\n\ndef f(p, m, x):\n    {option}\n    return m(x.cuda()).cpu().numpy()\n"
    told = "HPU120" in codes(tmp_path, {"a.py": text, "b.py": f"import torch\n{other}"}, "a.py")
    assert told == (OTHERS[other] and "--fp16" in option)


@pytest.mark.parametrize("compare", ["x.type() == {0}", "{0} == x.type()", "x.type() in ({0}, 'torch.cuda.FloatTensor')"])  # fmt: skip
@pytest.mark.parametrize("kind", ["torch.cuda.HalfTensor", "torch.hpu.HalfTensor"])
@pytest.mark.parametrize("cast", ["w.half()", "w.float()"])
def test_a_type_of_float16_that_is_asked_for_by_its_text(compare: str, kind: str, cast: str) -> None:  # fmt: skip
    text = f"import torch\n\n\ndef f(x, w):\n    w = w.cuda()\n    if {compare.format(repr(kind))}:\n        w = {cast}\n"
    assert ("HPU209" in settled(text)[1]) == (cast == "w.half()")


@pytest.mark.parametrize("config", ['{"fp16": true}', '{"use_fp16": true}'])
@pytest.mark.parametrize("declared", ["--fp16", "--bf16", "--use_fp16"])
def test_a_setting_keeps_the_name_of_the_projects_option(tmp_path: Path, config: str, declared: str) -> None:  # fmt: skip
    files = {
        "c.json": config,
        "a.py": f"import argparse, torch\n\np = argparse.ArgumentParser()\np.add_argument('{declared}')\nx = torch.ones(2).cuda()\n",
    }
    (told,) = found(tmp_path, files)["c.json"]
    own = f'"{declared[2:]}"' in config
    assert (told.severity == "note", told.fix is None) == (own, own)


HALVES = ["torch.float16 if {0} else torch.bfloat16", "torch.bfloat16 if {0} else torch.half"]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("test", ["c.fp16", "c.dtype == 'a'"])
def test_a_choice_of_one_dtype_is_none(half: str, test: str) -> None:
    text = f"import torch\n\n\ndef f(m, x, c):\n    kind = {half.format(test)}\n    with torch.autocast('cuda', dtype=kind):\n        m(x.cuda())\n"
    assert "    kind = torch.bfloat16\n" in settled(text)[0]
    assert " if " in settled(text.replace("torch.bfloat16", "torch.float32"))[0]


@pytest.mark.parametrize("test", ["kind != 'cpu'", "x.device.type != 'cpu'", "'cpu' != kind"])
@pytest.mark.parametrize("form", ["torch.optim.AdamW(p, fused={0})", "torch.optim.SGD(p, 1, fused={0})"])  # fmt: skip
def test_a_fused_optimizer_beside_the_cpu(test: str, form: str) -> None:
    text = f"import torch\n\n\ndef f(p, x, kind):\n    x.cuda()\n    return {form.format(test)}\n"
    assert "fused=False" in settled(text)[0]
    assert "fused=False" not in settled(text.replace("!=", "=="))[0]


# -- what is made and loaded -------------------------------------------------------------------

FALLBACKS = ["class Norm(torch.nn.Module):\n        def __init__(self):\n            super(Norm, self).__init__()", "def Norm(n):\n        return Norm.made[n]"]  # fmt: skip
PARTS = ["apex.normalization import FusedLayerNorm", "apex.parallel import DistributedDataParallel"]


@pytest.mark.parametrize(("part", "fallback"), crossed(PARTS, FALLBACKS))
def test_a_fallback_keeps_its_own_name(tmp_path: Path, part: str, fallback: str) -> None:
    text = f"import torch\n\ntry:\n    from {part} as Norm\nexcept ImportError:\n    {fallback}\n\n\ndef f():\n    return Norm(3)\n"
    lines = [f.line for f in found(tmp_path, {"a.py": text})["a.py"] if f.code == "HPU718"]
    assert lines == [text.count("\n")]


LOADED = {
    "state._metadata = other": False,
    "other = state._metadata": False,
    "other = state.settings": True,
}


@pytest.mark.parametrize("use", LOADED)
@pytest.mark.parametrize("copied", ["state = state.copy()", "state = state"])
def test_a_state_has_its_metadata(use: str, copied: str) -> None:
    text = f"import torch\n\n\ndef f(path, other):\n    state = torch.load(path, map_location='cpu')\n    {copied}\n    {use}\n    return state\n"
    assert ("HPU615" in settled(text)[1]) == LOADED[use]


@pytest.mark.parametrize("keys", ["'start': 1, 'model': m.state_dict()", "'start': 1, 'model': m.state_dict(), 'optimizer': o.state_dict()"])  # fmt: skip
@pytest.mark.parametrize("here", [True, False])
def test_two_programs_save_different_checkpoints(tmp_path: Path, keys: str, here: bool) -> None:
    saves = f"\n\ndef save(m, o, path):\n    torch.save({{{keys}}}, path)\n" if here else ""
    files = {
        "a.py": f"import torch\n\n\ndef f(m, path):\n    c = torch.load(path, map_location='cpu')\n    m.load_state_dict(c['model'])\n    return c['start']\n{saves}",
        "b.py": "import torch\n\n\ndef g(m, args, path):\n    print(args.lr)\n    torch.save({'start': 1, 'model': m.state_dict(), 'args': args}, path)\n",
    }
    assert ("HPU615" in codes(tmp_path, files, "a.py")) == (not here)


@pytest.mark.parametrize("load", ["torch.load({0})", "torch.hub.load_state_dict_from_url({0})", "torch.hub.load_state_dict_from_url(url={0})"])  # fmt: skip
@pytest.mark.parametrize("given", ["path", "path, map_location='cpu'", "path, **options"])
def test_what_is_downloaded_is_loaded_somewhere(load: str, given: str) -> None:
    text = f"import torch\n\n\ndef f(m, path, options):\n    m.cuda().load_state_dict({load.format(given)})\n"
    assert ("HPU613" in settled(text)[1]) == (given == "path")


# -- what is left ------------------------------------------------------------------------------

AROUND = {
    "torch.no_grad()": True,
    "torch.inference_mode()": True,
    "torch.cuda.device(0)": True,
    "lock": False,
    "open(path) as file": False,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("gone", ["torch.cuda.empty_cache()", "torch.cuda.ipc_collect()"])
def test_a_region_without_anything_in_it_goes(around: str, gone: str) -> None:
    text = f"import torch\n\n\ndef f(x, lock, path):\n    with {around}:\n        {gone}\n    return x.cuda()\n"
    text, _ = settled(text)
    assert "cache" not in text
    assert ("with " not in text) == AROUND[around]


# -- values of tensors in conditions, loops that are timed -------------------------------------

NETWORK = "import torch\nfrom torch import nn\n\n\nclass Own(nn.Module):\n    def __init__(self, size=3):\n        super().__init__()\n        self.size = size\n        self.register_buffer('count', torch.zeros(1))\n\n    def forward(self, x, mask):\n        n = mask.sum().float()\n        k = x.size(0)\n        if x.requires_grad:\n            {0}\n        return x.to('cuda')\n"
CONDITIONS = {
    "if self.count > 0:\n                x = x * 2": True,
    "if n > 0:\n                x = x * 2": True,
    "x = x * min(self.count, 3)": True,
    "x = x[:int(self.count)]": True,
    "if k > 0:\n                x = x * 2": False,
    "if self.size > 0:\n                x = x * 2": False,
    "x = x * min(self.size, k)": False,
    "x = x[:int(self.size / 2)]": False,
    "x = x * torch.min(self.count, n)": False,
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("more", ["", "\n            x = x + 1"])
def test_what_a_condition_reads_of_a_tensor(condition: str, more: str) -> None:
    text = NETWORK.format(condition + more)
    assert ("HPU513" in settled(text)[1]) == CONDITIONS[condition]


TURNS = {
    "x = torch.mm(x, a)": True,
    "y = model(x)": True,
    "x = torch.mm(x, a)\n        print(x.sum().item())": False,
    "x = torch.mm(x, a)\n        model(x).sum().backward()": False,
    "n += 1": False,
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("loop", ["for _ in range(n)", "while n"])
@pytest.mark.parametrize("after", ["torch.cuda.synchronize()", "print(x)"])
def test_a_loop_that_is_timed_collects_its_operations(turn: str, loop: str, after: str) -> None:
    text = f"import torch\n\n\ndef f(a, n, model):\n    x = torch.ones(2, device='cuda')\n    {loop}:\n        {turn}\n    {after}\n"
    assert ("HPU505" in settled(text)[1]) == (TURNS[turn] and "synchronize" in after)


COLLATED = {
    "class Pad:\n    def __call__(self, batch):\n        return max([x.size(1) for x in batch])\n": "Pad()",
    "class Pad:\n    def __call__(self, batch):\n        return max(x.shape[0] for x in batch)\n": "Pad()",
    "def pad(batch):\n    return max([x.shape[0] for x in batch])\n": "pad",
    "def pad(batch):\n    return max(len(x) for x in batch)\n": "pad",
}


@pytest.mark.parametrize("made", COLLATED)
@pytest.mark.parametrize("loader", ["DataLoader(data, collate_fn={0})", "DataLoader(data, 8, collate_fn={0}, drop_last=True)"])  # fmt: skip
def test_what_puts_a_batch_together(made: str, loader: str) -> None:
    text = f"import torch\nfrom torch.utils.data import DataLoader\n\n\n{made}\n\ndef f(data, model):\n    model.cuda()\n    return {loader.format(COLLATED[made])}\n"
    assert "HPU525" in settled(text)[1]
    assert "HPU525" not in settled(text.replace("max(", "list("))[1]


SAVED = {
    "best": "best = np.mean(losses)",
    "np.mean(losses)": "best = 1",
    "numpy.random.RandomState(0)": "best = 1",
    "float(best)": "best = np.mean(losses)",
    "best ": "best = np.inf",
    " best": "best = np.mean(losses).item()",
    "best  ": "best = np.random.rand()",
    "  best": "best = np.mean(losses)\n    best = losses[0]",
}


@pytest.mark.parametrize("value", SAVED)
@pytest.mark.parametrize("load", ["torch.load(path)", "torch.load(path, map_location='cpu')"])
def test_numbers_of_numpy_are_objects(value: str, load: str) -> None:
    text = f"import numpy\nimport numpy as np\nimport torch\n\n\ndef f(m, path, losses):\n    {SAVED[value]}\n    torch.save({{'model': m.state_dict(), 'best': {value}}}, path)\n\n\ndef g(m, path):\n    c = {load}\n    m.load_state_dict(c['model'])\n    return c['best'], m.cuda()\n"
    assert ("HPU615" in settled(text)[1]) == (value in list(SAVED)[:3])


@pytest.mark.parametrize("taken", ["torch.from_numpy({0})", "torch.from_numpy({0}['w'])"])
@pytest.mark.parametrize("load", ["torch.load(path)", "torch.load(path, map_location='cpu')"])
def test_an_array_is_no_tensor(taken: str, load: str) -> None:
    text = f"import torch\n\n\ndef f(path):\n    return {taken.format(load)}\n"
    assert "HPU615" in settled(text)[1]
    assert "HPU615" not in settled(text.replace("from_numpy", "clone"))[1]


# -- what stays --------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["args.device == 'gpu'", "args.device != 'cpu'", "use_cuda"])
@pytest.mark.parametrize("group", ["'gloo'", "backend='gloo', rank=0"])
def test_gloo_in_the_branch_of_the_cpu(test: str, group: str) -> None:
    text = f"import torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n\n\ndef f(args, use_cuda, model):\n    if {test}:\n        torch.cuda.set_device(0)\n    else:\n        dist.init_process_group({group})\n    return DistributedDataParallel(model.cuda())\n"
    assert "HPU326" not in settled(text)[1]
    assert "HPU326" in settled(text.replace(f"if {test}", "if args.many"))[1]


@pytest.mark.parametrize("task", ["'summarization', ", "task='summarization', "])
@pytest.mark.parametrize("device", ["'hpu'", '"hpu"', "0"])
def test_what_is_written_is_not_told_again(task: str, device: str) -> None:
    text = f"from transformers import pipeline\n\np = pipeline({task}device={device})\n"
    assert ("HPU701" in settled(text)[1]) == (device == "0")


@pytest.mark.parametrize("asked", ["{0} in buckets", "{0} == kind", "kind is {0}"])
@pytest.mark.parametrize("kind", ["torch.cuda.HalfTensor", "torch.cuda.FloatTensor"])
def test_a_type_that_is_only_compared_stops_nothing(asked: str, kind: str) -> None:
    text = f"import torch\n\n\ndef f(buckets, kind):\n    return {asked.format(kind)}\n"
    assert severities(text, "HPU114") == ["warning"]
    assert severities(text.replace(asked.format(kind), f"{kind}(3)"), "HPU114") == ["error"]


#: What becomes of a checkpoint that is no object of the class that is asked for, and whether a file of tensors fails.
ELSE = {"raise ValueError(path)": True, "return None": True, "net.load_state_dict(ck)": False, "net.load_state_dict(ck['model'])": False, "net.scale = ck['scale']": False}  # fmt: skip


@pytest.mark.parametrize("other", ELSE)
@pytest.mark.parametrize("form", ["if isinstance(ck, Net):\n        return ck\n    {0}", "if not isinstance(ck, Net):\n        {0}\n    return net"])  # fmt: skip
def test_who_takes_a_state_too_needs_no_object(tmp_path: Path, form: str, other: str) -> None:
    text = f"import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n\n\ndef load(path):\n    net = Net().cuda()\n    ck = torch.load(path, map_location='cpu')\n    {form.format(other)}\n    return net\n"
    codes = [f.code for f in found(tmp_path, {"a.py": text})["a.py"]]
    assert ("HPU615" in codes) == ELSE[other]
