"""What unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse, migrate
from hpushim.matrix import load
from hpushim.model import Target


def settled(text: str, kind: str = "python", name: str = "ops.py", style: str = "native") -> tuple[str, list[str]]:  # fmt: skip
    """A file after the rewrite, and the codes of what is said of it."""
    done = settle(text, kind, name, Context(Target(style=style), load()))  # type: ignore[arg-type]
    return done.text, [finding.code for finding in done.findings]


KINDS = {"kind = 'cuda'": "kind", "kind = 'cuda' if gpu else 'cpu'": "kind", "self.kind = 'cuda'": "self.kind"}  # fmt: skip
NUMBERED = ["f'{{{0}}}:{{rank}}'", "{0} + ':' + str(rank)", "{0} + ':%d' % rank", "'%s:%d' % ({0}, rank)", "'{{}}:{{}}'.format({0}, rank)", "':'.join([{0}, str(rank)])"]  # fmt: skip
PLACES = ["x.to({0})", "torch.device({0})", "torch.ones(2, device={0})", "torch.load(x, map_location={0})"]  # fmt: skip


@pytest.mark.parametrize(("form", "place", "given"), crossed(NUMBERED, PLACES, list(KINDS), rounds=2))  # fmt: skip
def test_a_device_of_a_variable_loses_its_number(form: str, place: str, given: str) -> None:
    kind = KINDS[given]
    text = f"import torch\n\n\ndef f(self, x, rank, gpu):\n    {given}\n    return {place.format(form.format(kind))}\n"
    done, _ = settled(text)
    assert done.splitlines()[-1] == f"    return {place.format(kind)}"


@pytest.mark.parametrize("form", NUMBERED)
@pytest.mark.parametrize("place", ["print({0})", "{{{0}: 3}}", "log(run={0})", "'run-' + {0}"])
def test_a_text_that_is_no_device_keeps_it(form: str, place: str) -> None:
    used = place.format(form.format("kind"))
    text = f"import torch\n\n\ndef f(x, rank):\n    kind = 'cuda'\n    x = x.to(kind)\n    return {used}\n"
    assert settled(text)[0].splitlines()[-1] == f"    return {used}"


@pytest.mark.parametrize("number", ["f':{rank}'", "':' + str(rank)", "':%d' % rank", "':{}'.format(rank)"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_a_number_that_is_added_goes(number: str, style: str) -> None:
    text = f"import torch\n\n\ndef f(x, rank):\n    name = 'cuda'\n    name += {number}\n    return x.to(name)\n"
    assert ("+=" in settled(text, style=style)[0]) == (style != "native")
    label = text.replace("return x.to(name)", "print(name)\n    return x.to('cuda')")
    assert "+=" in settled(label)[0]


PARTS = {
    "cur = {key: batch[key][rows] for key in batch}": "cur",
    "cur = {k: v[:2] for k, v in batch.items()}": "cur",
    "cur = [each[rows] for each in batch]": "cur",
    "cur = tuple(each.float() for each in batch)": "*cur",
    "cur = dict(batch)": "cur",
    "cur = [batch[k] for k in ('x', 'y')]": "cur",
    "cur = [part for group in batch for part in group]": "cur",
}
WRAPPED = ["DistributedDataParallel(model, device_ids=[rank])", "DataParallel(model)"]


@pytest.mark.parametrize("wrapper", WRAPPED)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("moved", [False, True])
def test_parts_of_a_batch_are_as_little_moved_as_the_batch(wrapper: str, part: str, moved: bool) -> None:  # fmt: skip
    before = "batch = move_to_device(batch)" if moved else "pass"
    text = (
        f"import torch\n\n\ndef f(model, loader, rank, rows):\n    model = torch.nn.parallel.{wrapper}\n    for batch in loader:\n"
        f"        {before}\n        {part}\n        model({PARTS[part]})\n"
    )
    assert ("HPU321" in settled(text)[1]) == (not moved)


#: What is made of a part of the batch, and whether it is left on the host as the part is.
DERIVED = {"x.flip(3)": True, "x.float().flip(3)": True, "x[:, :1]": True, "x.cuda().flip(3)": False, "x.flip(3).cuda()": False, "x.size(0)": False, "find(x)": False}  # fmt: skip


@pytest.mark.parametrize("made", DERIVED)
@pytest.mark.parametrize("turn", ["", "if flip:\n            "])
def test_what_is_made_of_a_part_that_a_call_moves(made: str, turn: str) -> None:
    text = f"import torch\n\n\ndef f(model, loader, flip):\n    model = torch.nn.DataParallel(model).cuda()\n    for x, y in loader:\n        a = model(x) + x.mean()\n        {turn}z = {made}\n        {turn}b = model(z)\n"
    done, codes = settled(text)
    assert "model(x.to(next(model.parameters()).device))" in done
    assert ("model(z.to(next(model.parameters()).device))" in done) is DERIVED[made]
    assert codes.count("HPU321") == 1 + DERIVED[made]


OWN = ["device = torch.device('cpu')", "device = 'cpu'", "dev = torch.device('cpu')"]
USES = ["model = model.to({0})", "x = torch.ones(2, device={0})", "x = x.to(device={0})"]


@pytest.mark.parametrize(("made", "use"), crossed(OWN, USES, rounds=3))
def test_a_function_that_trains_on_the_cpu_gets_no_mark(made: str, use: str) -> None:
    placed = use.format(made.split(maxsplit=1)[0])
    body = f"    {made}\n    {placed}\n    loss = model(x)\n    loss.backward()\n    optimizer.step()\n"
    other = "def g(x):\n    return x.cuda()\n\n\n"
    text = f"import torch\n\n\n{other}def f(model, x, optimizer):\n{body}"
    assert "mark_step" not in settled(text)[0]
    assert "mark_step" in settled(text.replace("'cpu'", "'cuda'"))[0]
    assert "mark_step" in settled(text.replace("'cpu'", "args.device"))[0]
    assert "mark_step" in settled(text.replace(f"    {made}\n", "").replace("(model, x,", f"(model, x, {made.split(maxsplit=1)[0]},"))[0]  # fmt: skip


LIBRARIES = ["libcudart.so", "libcuda.so.1", "/usr/local/cuda/lib64/libcublas.so", "libnccl.so.2", "libnvidia-ml.so.1", "nvcuda.dll"]  # fmt: skip
LOADED = ["ctypes.CDLL({0})", "ctypes.cdll.LoadLibrary({0})", "CDLL({0})", "CDLL(name)"]


@pytest.mark.parametrize(("form", "library"), crossed(LOADED, LIBRARIES, rounds=2))
def test_a_library_of_cuda_that_is_loaded(form: str, library: str) -> None:
    head = f"import ctypes\nfrom ctypes import CDLL\n\nname = {library!r}\n"
    assert "HPU608" in settled(head + f"lib = {form.format(repr(library))}\n")[1]
    assert "HPU608" not in settled(head.replace(library, "libc.so.6") + f"lib = {form.format(repr('libm.so'))}\n")[1]  # fmt: skip


REMOVED = ["torch.cuda.empty_cache()", "torch.backends.cudnn.benchmark = True"]
AROUND = ["try:\n    {0}\nexcept Exception:\n    pass", "try:\n    {0}\nfinally:\n    {0}", "for i in range(3):\n    {0}", "if args.fast:\n    try:\n        {0}\n    except RuntimeError:\n        print(1)"]  # fmt: skip
KEPT = ["try:\n    {0}\nfinally:\n    close()", "try:\n    {0}\nexcept E:\n    pass\nelse:\n    go()", "for x in loader:\n    {0}", "while go():\n    {0}", "with here():\n    {0}"]  # fmt: skip


@pytest.mark.parametrize("removed", REMOVED)
@pytest.mark.parametrize("form", AROUND + KEPT)
def test_what_is_left_with_nothing_to_do_goes(removed: str, form: str) -> None:
    done = settled(f"import torch\n\nx = 1\n{form.format(removed)}\ny = 2\n")[0]
    assert removed not in done
    assert done.endswith("x = 1\ny = 2\n") == (form in AROUND)


@pytest.mark.parametrize("setting", ["export CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=1 python a.py", "CUDA_VISIBLE_DEVICES="])  # fmt: skip
@pytest.mark.parametrize("comment", ["# set CUDA_VISIBLE_DEVICES", "  # CUDA_VISIBLE_DEVICES=2 python b.py", "#CUDA_VISIBLE_DEVICES"])  # fmt: skip
def test_comments_of_a_script_follow_the_variable(setting: str, comment: str) -> None:
    done = settled(f"#!/bin/bash\n{comment}\n{setting}\n", "shell", "run.sh")[0]
    turned = comment.replace("CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES")
    assert done.splitlines()[1] == (comment if setting.endswith("=") else turned)


MADE = ["torch.zeros(2)", "torch.ones((2, n))", "torch.rand(n)", "torch.arange(n)", "torch.tensor([1, 2])"]  # fmt: skip
WRAPPING = ["torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])", "torch.nn.DataParallel(net)"]  # fmt: skip


@pytest.mark.parametrize(("made", "wrapper"), crossed(MADE, WRAPPING, rounds=2))
@pytest.mark.parametrize("given", ["x.cuda(), h", "x.cuda(), hidden=h"])
def test_what_is_made_on_the_host_is_moved_to_a_wrapped_model(made: str, wrapper: str, given: str) -> None:  # fmt: skip
    text = f"import torch\n\n\ndef f(net, x, n, rank):\n    net = {wrapper}\n    h = {made}\n    with torch.no_grad():\n        return net({given})\n"
    moved = given.replace("x.cuda()", 'x.to("hpu")').replace("h", "h", 1)
    done, codes = settled(text)
    assert "HPU321" in codes
    assert ".to(next(net.parameters()).device)" in done
    assert moved.partition(",")[0] in done
    for other in (f"{made[:-1]}, device=x.device)", "build(n)", f"{made}.to(x.device)"):
        assert "HPU321" not in settled(text.replace(made, other))[1], other
    assert "HPU321" not in settled(text.replace("    with", "    h = h.cuda()\n    with"))[1]
    assert "HPU321" not in settled(text.replace(wrapper, "Net()"))[1]


PREFIXES = {"'2'": None, "'2.'": None, "'1'": False, "'1.'": False, "'2.1'": None, "'2.1.'": False, "'2.5.'": False, "('0.', '1.')": False, "('1.', '2.')": None}  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("version", ["torch.__version__", "str(torch.__version__)"])
def test_what_a_release_begins_with(prefix: str, version: str) -> None:
    text = f"import torch\n\nif {version}.startswith({prefix}):\n    x = x.cuda()\nelse:\n    y = y.cuda()\n"
    done = settled(text)[0]
    assert ("x = x.cuda()" in done) == (PREFIXES[prefix] is False)
    assert "y = y.to" in done


@pytest.mark.parametrize("how", ["from functools import partial", "import functools", "import functools as f", "import os"])  # fmt: skip
def test_partial_is_written_as_the_file_has_it(how: str) -> None:
    text = f"import torch\n{how}\n\nif amp:\n    cast = torch.cuda.amp.autocast\nelse:\n    cast = build\n"
    done = settled(text)[0]
    short = {"from functools import partial": "partial", "import functools as f": "f.partial"}
    written = short.get(how, "functools.partial")
    assert f"cast = {written}(torch.autocast, " in done
    assert done.count("import functools") == ("from" not in how)


@pytest.mark.parametrize("place", ["'cuda:%d' % rank", "f'cuda:{rank}'", "torch.device('cuda', rank)", "'cpu'"])  # fmt: skip
@pytest.mark.parametrize("load", ["torch.load(p, map_location={{'cuda:0': {0}}})", "torch.load(p, {{'cuda:0': {0}}})"])  # fmt: skip
def test_a_map_of_places_becomes_its_place(place: str, load: str) -> None:
    text = f"import torch\n\n\ndef f(p, rank):\n    where = {place}\n    return {load.format('where')}\n"
    turned = load.replace("{{'cuda:0': {0}}}", "where")
    assert settled(text)[0].endswith(f"    return {turned}\n") == (place != "'cpu'")


CARDS = ["rank", "self.local_rank", "args.gpu", "torch.cuda.current_device()", "0", "rank % torch.cuda.device_count()"]  # fmt: skip


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("place", ["torch.device({0})", "torch.device({0}) if gpu else torch.device('cpu')", "x.to(torch.device({0}))"])  # fmt: skip
def test_a_device_of_a_number_alone_is_the_only_one(card: str, place: str) -> None:
    text = f"import torch\n\n\ndef f(self, x, args, rank, gpu):\n    x = x.cuda()\n    return {place.format(card)}\n"
    number = "rank %" in card  # which may be anything
    wanted = place.format(card.replace("torch.cuda", "torch.hpu") if number else '"hpu"')
    assert settled(text)[0].endswith(f"    return {wanted}\n".replace("\"hpu\"", "'hpu'" if "'cpu'" in place else '"hpu"'))  # fmt: skip


SUFFIXES = {"f':{i}' if i else ''": True, "':' + str(i) if many else ''": True, "''": True, "':%d' % i": True, "'11.8'": False, "version": False, "f'-{i}'": False}  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("form", ["f'cuda{s}'", "'cuda' + s", "'cuda{}'.format(s)", "'cuda%s' % s"])
def test_a_suffix_of_a_device_is_a_number_or_nothing(suffix: str, form: str) -> None:
    text = f"import torch\n\n\ndef f(x, i, many, version):\n    s = {suffix}\n    return x.to({form})\n"
    assert ("cuda" not in settled(text)[0]) == SUFFIXES[suffix]


@pytest.mark.parametrize("skip", ["unittest.skipIf({0}, {1})", "unittest.skipUnless({0}, {1})", "pytest.mark.skipif({0}, reason={1})", "pytest.mark.skipif(not {0}, reason={1})"])  # fmt: skip
@pytest.mark.parametrize("said", ["needs CUDA", "CUDA not available", "CUDA only"])
def test_the_reason_of_a_skip_follows_its_check(skip: str, said: str) -> None:
    mark = skip.format("torch.cuda.is_available()", f"{said!r}")
    done = settled(f"import torch\n\n\n@{mark}\ndef test_a():\n    torch.ones(2).cuda()\n")[0]
    assert repr(said.replace("CUDA", "HPU")) in done


@pytest.mark.parametrize("moved", ['batch["x"] = batch["x"].cuda()', "batch = to_device(batch)", "batch = batch.to(rank)"])  # fmt: skip
def test_parts_that_a_function_cuts_of_what_is_moved(moved: str) -> None:
    text = (
        "import torch\n\n\ndef f(net, loader, rank, cut):\n    net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank])\n"
        f"    batch = next(iter(loader))\n    {moved}\n    for part in cut(batch, 3):\n        net(part)\n"
    )
    assert "HPU321" not in settled(text)[1]
    assert "HPU321" in settled(text.replace(f"    {moved}\n", ""))[1]


STAND_INS = {
    "class GradScaler:\n        def __init__(self):\n            pass\n\n        def scale(self, loss):\n            return loss": "class",
    "def GradScaler(**options):\n        return None": "function",
    "GradScaler = None": "nothing",
}


@pytest.mark.parametrize("caught", ["except:", "except ImportError:", "except ModuleNotFoundError:", "except Exception:", "except (ImportError, AttributeError):"])  # fmt: skip
@pytest.mark.parametrize("instead", list(STAND_INS), ids=list(STAND_INS.values()))
@pytest.mark.parametrize("package", ["torch.cuda.amp", "torch.amp"])
def test_a_stand_in_for_an_import_hides_nothing(caught: str, instead: str, package: str) -> None:
    text = (
        f"import torch\n\ntry:\n    from {package} import GradScaler\n{caught}\n    {instead}\n\n\n"
        "def train(model, optimizer, x):\n    scaler = GradScaler()\n    loss = model(x).sum()\n"
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n"
    )
    done, codes = settled(text)
    assert "HPU010" not in codes
    assert "scaler.scale(loss)" not in done
    assert "    optimizer.step()\n" in done


def test_a_class_beside_more_than_imports_may_be_meant() -> None:
    text = "try:\n    from torch.cuda.amp import GradScaler\n    GradScaler(enabled=probe())\nexcept Exception:\n    class GradScaler:\n        pass\n\nscaler = GradScaler()\n"
    assert "scaler = GradScaler()" in settled(text)[0]


TEXTS = ["only {0} devices work", "f'only {0} devices work, not {{device}}'", "f'{{device}} is no {0} device'", "rf'a {0} GPU, not {{device!r:>8}}'", "f'is {{device}}' ' no {0} device'"]  # fmt: skip
SAYINGS = ["assert device.type == 'cuda', {0}", "if device.type != 'cuda':\n        raise ValueError({0})", "if device.type == 'cpu' or device.type != 'cuda':\n        print({0})"]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("saying", SAYINGS)
@pytest.mark.parametrize("written", ["cuda", "CUDA"])
def test_a_text_beside_a_check_follows_it(text: str, saying: str, written: str) -> None:
    given = text.format(written) if "'" in text else repr(text.format(written))
    done, codes = settled(
        f"def f(device, x):\n    {saying.format(given)}\n    return x.to('cuda')\n"
    )
    assert "HPU027" in codes
    assert written not in done
    assert "a HPU" not in done
    assert done.count("{device") == given.count("{device")


VARIABLES = {
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": True,
    "NCCL_DEBUG": True,
    "TORCH_CUDA_ARCH_LIST": True,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": True,
    "OURS_CUDA_FLAG": False,
    "_our_nccl_state": False,
}
GIVEN = ["{{'env_vars': {{{0!r}: '1'}}}}", "dict(os.environ, {0}='1')", "f'{0}=1 python train.py'", "launch({0!r}, '1')"]  # fmt: skip


@pytest.mark.parametrize("name", list(VARIABLES))
@pytest.mark.parametrize("given", GIVEN)
def test_the_matrix_knows_a_variable_wherever_it_is_written(name: str, given: str) -> None:
    text = f"import os, torch\n\ntorch.ones(2).cuda()\nrun({given.format(name)})\n"
    assert ("HPU010" in settled(text)[1]) == VARIABLES[name]


NUMBERS = {
    "def f(rank, model, x):": "rank",
    "def f(local_rank: int, model, x):": "local_rank",
    "def f(n, model, x):": "int(os.environ.get('LOCAL_RANK', 0))",
    "def f(k, model, x):": "k % torch.cuda.device_count()",
}


@pytest.mark.parametrize("head", list(NUMBERS))
@pytest.mark.parametrize("moved", ["model.to({0})", "x.to({0}, non_blocking=True)", "torch.ones(2, device={0})", "torch.ones(2).to({0})"])  # fmt: skip
def test_a_number_under_the_name_of_a_device_is_one(head: str, moved: str) -> None:
    text = f"import os, torch\n\ntorch.ones(1).cuda()\n\n\n{head}\n    device = {NUMBERS[head]}\n    return {moved.format('device')}\n"
    last = settled(text)[0].splitlines()[-1]
    assert last.replace("'", '"') == "    return " + moved.format('"hpu"')


@pytest.mark.parametrize("head", ["def f(gpu: str, model):", "def f(name, model):", "def f(rank: torch.device, model):"])  # fmt: skip
def test_a_device_under_the_name_of_a_number_is_none(head: str) -> None:
    given = head[6:].partition(":")[0].partition(",")[0]
    text = f"import torch\n\n\n{head}\n    device = {given}\n    torch.ones(2).cuda()\n    return model.to(device)\n"
    assert settled(text)[0].splitlines()[-1] == "    return model.to(device)"


@pytest.mark.parametrize("given", ["'spawn'", "'forkserver'", "method='spawn'", "how"])
@pytest.mark.parametrize("word", ["set_start_method({0})", "set_start_method({0}, force=True)", "get_context({0})"])  # fmt: skip
def test_a_start_method_other_than_fork_is_right(given: str, word: str) -> None:
    written = word.format(given)
    if given.startswith("method=") and "force" not in written:
        written = written.replace(", force", "")
    text = f"import torch\nimport torch.multiprocessing as mp\n\nhow = 'spawn'\nmp.{written}\ntorch.ones(2).cuda()\n"
    assert "HPU316" not in settled(text)[1]
    assert "HPU316" in settled(text.replace(f"({given}", "('fork'"))[1]


@pytest.mark.parametrize("package", ["tvm", "faiss", "xgboost"])
@pytest.mark.parametrize("check", ["device == 'cuda'", "device in ['cpu', 'cuda']", "'cuda' == device"])  # fmt: skip
@pytest.mark.parametrize("goes", ["return {0}.build(target=device)", "return {0}.build(1, device)", "target = device\n        return {0}.build(target)"])  # fmt: skip
def test_what_goes_to_another_library_alone_is_not_turned(
    package: str, check: str, goes: str
) -> None:
    text = f"import torch\n\n\ndef f(device, x):\n    import {package}\n    if {check}:\n        {goes.format(package)}\n    return torch.ones(2).cuda()\n"
    done, codes = settled(text)
    assert check in done
    assert "HPU125" in codes
    both = text.replace("return torch.ones(2).cuda()", "return x.to(device)")
    assert check not in settled(both)[0]


@pytest.mark.parametrize("arguments", ["optimizer='adam', loss='mse'", "optimizer=self.opt", "metrics=['auc'], backend=None"])  # fmt: skip
@pytest.mark.parametrize("owner", ["super(Base, self)", "super()", "self", "Base()"])
def test_keras_compiles_models_too(arguments: str, owner: str) -> None:
    text = f"import torch\n\n\nclass Base(torch.nn.Module):\n    pass\n\n\nclass Model(Base):\n    def build(self):\n        {owner}.compile({arguments})\n        torch.ones(2).cuda()\n"
    assert f"{owner}.compile({arguments})" in settled(text)[0]


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


@pytest.mark.parametrize("passed", ["hpushim.lightning.HPUAccelerator()", "hpushim.lightning.accelerator('gpu')", "own"])  # fmt: skip
def test_its_own_accelerator_is_not_reported(passed: str) -> None:
    text = f"import pytorch_lightning as pl\nimport hpushim.lightning\n\nown = hpushim.lightning.HPUAccelerator()\npl.Trainer(max_epochs=3, accelerator={passed}).fit(m)\n"
    assert "HPU503" not in settled(text)[1]
    assert "HPU503" in settled(text.replace(f"accelerator={passed}", "accelerator=args.a"))[1]


@pytest.mark.parametrize("torch", ["import torch", "import torch as th"])
@pytest.mark.parametrize(("compared", "after"), [("device.type == {0}", 'device.type != "cpu"'), ("{0} == device.type", 'device.type != "cpu"'), ("device.type != {0}", 'device.type == "cpu"')])  # fmt: skip
def test_the_type_of_a_made_device_is_compared_as_its_text(torch: str, compared: str, after: str) -> None:  # fmt: skip
    name = torch.rpartition(" ")[2]
    test = compared.format(f'{name}.device("cuda").type')
    text = f"{torch}\n\n\ndef f(device: {name}.device):\n    if {test} and not {name}.cuda.is_available():\n        return {name}.device('cpu')\n    return device\n"
    done, _ = settled(text, style="agnostic")
    assert f"    if {after} and not {name}.accelerator.is_available():\n" in done.replace("'", '"')
    assert "current_accelerator" not in done


@pytest.mark.parametrize("spread", ["data_parallel(m, x, ids)", "replicate(m, ids)", "parallel_apply([m], [x])"])  # fmt: skip
@pytest.mark.parametrize("owner", ["torch.nn.parallel", "nn.parallel", "torch.nn.parallel.data_parallel"])  # fmt: skip
def test_functions_that_spread_a_model_are_told(spread: str, owner: str) -> None:
    if owner.endswith("data_parallel"):
        owner = f"torch.nn.parallel.{spread.partition('(')[0]}"
    text = (
        f"import torch\nfrom torch import nn\n\n\ndef f(m, x, ids):\n    return {owner}.{spread}\n"
    )
    assert "HPU308" in settled(text)[1]


@pytest.mark.parametrize("back", ["float", "double"])
@pytest.mark.parametrize("model", ["model", "ckpt['model']", "copy.deepcopy(model)"])
def test_what_is_only_rounded_to_float16_is_not_told(model: str, back: str) -> None:
    text = f"import copy, torch\n\nmodel = torch.nn.Linear(2, 2).cuda()\n{model}.half().{back}()\n"
    assert "HPU208" not in settled(text)[1]
    assert "HPU208" in settled(text.replace(f".{back}()", ""))[1]


@pytest.mark.parametrize("package", ["onnxruntime-gpu", "faiss-gpu"])
@pytest.mark.parametrize("use", ["need('{0}' if gpu else 'plain')", "name = '{0}' if gpu else 'plain'", "if gpu:\n    need(['{0}'])"])  # fmt: skip
def test_a_check_that_picks_a_package_for_cuda_stays(package: str, use: str) -> None:
    text = f"import torch\n\ngpu = torch.cuda.is_available()\n{use.format(package)}\n"
    done, codes = settled(text)
    assert done == text
    assert "HPU028" in codes
    assert "hpu" in settled(text.replace(package, "other"))[0]


@pytest.mark.parametrize("made", ["LLM('a')", "engine.LLM('a')", "Engine()"])
@pytest.mark.parametrize("call", ["{0}.generate(ids, sampling_params=p)", "{0}.generate(prompt_token_ids=ids)"])  # fmt: skip
def test_only_transformers_generate_with_its_cache(made: str, call: str) -> None:
    text = f"import engine, torch\nfrom engine import LLM\nfrom transformers import AutoModel\n\n\nclass Engine(LLM):\n    pass\n\n\nhf = AutoModel.from_pretrained('a').cuda()\nllm = {made}\n{call.format('llm')}\n"
    assert "HPU527" not in settled(text)[1]
    assert "HPU527" in settled(text.replace("llm.generate", "hf.generate"))[1]
    assert "HPU527" in settled(text.replace("Engine(LLM)", "Engine(torch.nn.Module)").replace(f"llm = {made}", "llm = Engine()"))[1]  # fmt: skip


def neutral_names() -> list[tuple[str, str]]:
    """Names outside of torch.cuda that do not work on Gaudi, with the code of the rule that has their row."""
    from hpushim.codemods.bases.torch_name import _name_codes

    return [
        (name, row.rule)
        for row in load().by_kind("python")
        if row.rule in _name_codes() and row.status == "unsupported"
        for name in row.names
        if name.startswith("torch.") and not name.startswith("torch.cuda")
    ]


def test_a_neutral_name_that_does_not_work_is_found_as_its_row_says() -> None:
    assert len(neutral_names()) > 10
    for name, code in neutral_names():
        text = f"import torch\nimport {name.rpartition('.')[0]}\n\ntorch.ones(2).cuda()\n{name}()\n"
        assert code in settled(text)[1], name
        assert code not in settled(text, style="agnostic")[1], name


#: Tables that ask Ray for devices, and how they come to it.
ASKING = [
    "{'CPU': 1, 'GPU': 1}",
    "{'CPU': 1, 'GPU': 1} if gpu else {'CPU': 1}",
    "{**other, 'GPU': 1}",
]
TAKEN = [
    "placement_group([{0}])",
    "placement_group(bundles=[{0} for _ in range(n)])",
    "table = {0}\n    placement_group(bundles=[table])",
    "lists = [[{0} for _ in range(n)] for n in range(2)]\n    return [placement_group(bundles=each) for each in lists]",
    "lists = []\n    lists.append({0})\n    placement_group(bundles=lists)",
    "pick = dict(bundles=[{0}])\n    placement_group(**pick)",
]
RAY = "import torch, ray\nfrom ray.util.placement_group import placement_group\n\n\ndef f(gpu, n, other, Actor, given):\n    {0}\n\n\ntorch.ones(2).cuda()\n"


@pytest.mark.parametrize(("table", "taken"), crossed(ASKING, TAKEN, rounds=2))
def test_a_table_of_resources_that_comes_to_ray_is_told(table: str, taken: str) -> None:
    text = RAY.format(taken.format(table))
    done, codes = settled(text)
    assert "HPU716" in codes
    assert done.count("'HPU': 1") == 1
    elsewhere = settled(text.replace("placement_group(", "print("))
    assert "HPU716" not in elsewhere[1]


@pytest.mark.parametrize("put", ["options['num_gpus'] = given", "options['num_gpus'] = 1", "if gpu:\n        options['num_gpus'] = given / n"])  # fmt: skip
@pytest.mark.parametrize("use", ["Actor.options(**options).remote()", "ray.remote(**options)(Actor)", "made = options\n    Actor.options(**made)"])  # fmt: skip
def test_what_is_put_into_options_for_ray_is_told(put: str, use: str) -> None:
    text = RAY.format(f"options = {{'name': n}}\n    {put}\n    {use}")
    assert "HPU716" in settled(text)[1]
    assert "HPU716" not in settled(text.replace("num_gpus", "num_cpus"))[1]
    assert "HPU716" not in settled(text.replace(use, "print(options)"))[1]


#: How a device is written with its number.
WITH_NUMBER = ["f'cuda:{{{0}}}'", "'cuda:%d' % {0}", "'cuda:{{}}'.format({0})", "'cuda:' + str({0})", "torch.device('cuda', {0})", "torch.device('cuda', index={0})", "torch.device(f'cuda:{{{0}}}')"]  # fmt: skip
SET = ["torch.cuda.set_device({0})", "device = {0}\n    torch.cuda.set_device(device)", "self.device = {0}\n    torch.cuda.set_device(self.device)"]  # fmt: skip


@pytest.mark.parametrize(("device", "call", "number"), crossed(WITH_NUMBER, SET, ["rank", "args.local_rank"], rounds=3))  # fmt: skip
def test_a_device_that_is_set_keeps_its_number(device: str, call: str, number: str) -> None:
    body = call.format(device.format(number))
    text = (
        f"import torch\n\n\ndef f(self, rank, args):\n    {body}\n    return torch.ones(2).cuda()\n"
    )
    assert f"torch.hpu.set_device({number})" in settled(text)[0]
    assert f"set_device({number})" not in settled(text, style="agnostic")[0]
    again = text.replace("    return", "    rank = 3\n    return")
    assert (f"set_device({number})" in settled(again)[0]) == ("." in number)


RUN = ["subprocess.check_output({0})", "subprocess.run({0}, capture_output=True).stdout", "subprocess.Popen({0})", "subprocess.check_call({0})"]  # fmt: skip
COMMANDS = ["['nvidia-smi', '-L']", "['nvidia-smi', '--query-gpu=name', '--format=csv']", "'nvidia-smi'"]  # fmt: skip
CAUGHT = {
    "def f():\n    return {0}\n": True,
    "def f():\n    return {0}\n\n\nprint(f())\n": True,
    "if torch.cuda.is_available():\n    print({0})\n": True,
    "try:\n    {0}\nexcept FileNotFoundError:\n    pass\n": False,
    "try:\n    {0}\nexcept (OSError, ValueError):\n    pass\n": False,
    "def f():\n    return {0}\n\n\ntry:\n    f()\nexcept Exception:\n    pass\n": False,
    "def f():\n    if shutil.which('nvidia-smi'):\n        return {0}\n": False,
    "try:\n    {0}\nexcept ValueError:\n    pass\n": True,
}


def severities(text: str, code: str) -> list[str]:
    """How bad the findings of a code are."""
    findings = settle(text, "python", "ops.py", Context(Target(), load())).findings
    return [finding.severity for finding in findings if finding.code == code]


@pytest.mark.parametrize(("run", "given", "around"), crossed(RUN, COMMANDS, list(CAUGHT), rounds=2))
def test_a_command_that_is_not_there_stops_the_program_unless_that_is_caught(run: str, given: str, around: str) -> None:  # fmt: skip
    text = f"import shutil, subprocess\nimport torch\n\n{around.format(run.format(given))}torch.ones(2).cuda()\n"
    assert severities(text, "HPU020") == ["error" if CAUGHT[around] else "warning"]


@pytest.mark.parametrize("call", ["os.system('nvidia-smi')", "subprocess.run('nvidia-smi', shell=True)", "subprocess.getoutput('nvidia-smi -L')", "os.popen('nvidia-smi').read()", "subprocess.run(['bash', '-c', 'nvidia-smi'])"])  # fmt: skip
def test_a_shell_goes_on_without_a_command(call: str) -> None:
    text = f"import os, subprocess\nimport torch\n\n{call}\ntorch.ones(2).cuda()\n"
    assert severities(text, "HPU020") == ["warning"]


@pytest.mark.parametrize("setting", ["os.environ['CUDA_VISIBLE_DEVICES'] = {0}", "os.environ.setdefault('CUDA_VISIBLE_DEVICES', {0})", "os.putenv('CUDA_VISIBLE_DEVICES', {0})"])  # fmt: skip
@pytest.mark.parametrize("value", ["'-1'", "''", "'0,1'", "gpus"])
def test_hiding_every_gpu_hides_no_gaudi(setting: str, value: str) -> None:
    text = f"import os\nimport torch\n\n{setting.format(value)}\ntorch.ones(2).cuda()\n"
    done = settle(text, "python", "ops.py", Context(Target(), load(), unsafe=True))
    (told,) = [each for each in done.findings if each.code == "HPU312"]
    hides = value in ("'-1'", "''")
    assert ("no longer makes" in told.message) == hides
    assert ("HABANA_VISIBLE_MODULES" in done.text) != hides


FLOATING = ["loss = m(x)", "y = m(x).mean()\n    loss = y", "loss = torch.zeros(2, device='cuda')", "loss = torch.tensor(0.5).cuda()", "z = m(x).mean()\n    loss = z.detach()"]  # fmt: skip
WHOLE = ["n = torch.zeros(2, dtype=torch.long).cuda()", "n = m(x).argmax()", "n = count(x)", "n = torch.tensor(3)"]  # fmt: skip


@pytest.mark.parametrize("made", [*FLOATING, *WHOLE])
@pytest.mark.parametrize("call", ["dist.all_reduce({0}, op=dist.ReduceOp.AVG)", "dist.all_reduce({0}, dist.ReduceOp.AVG)"])  # fmt: skip
def test_an_average_of_floats_is_divided_plainly(made: str, call: str) -> None:
    name = "loss" if made in FLOATING else "n"
    text = f"import torch\nimport torch.distributed as dist\n\n\ndef f(m, x):\n    {made}\n    {call.format(name)}\n"
    assert ("rounding_mode" in settled(text)[0]) == (made in WHOLE)
    if made not in FLOATING[:1]:
        assert ("rounding_mode" in settled(text.replace("loss", "value"))[0]) == (made in WHOLE)


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


@pytest.mark.parametrize(
    "held", ["{0}", "x = {0}", "class A:\n    norm = {0}\n", "def f():\n    return {0}\n"]
)
@pytest.mark.parametrize("name", ["torch.nn.SyncBatchNorm", "nn.SyncBatchNorm"])
def test_a_file_without_cuda_is_read_for_names_that_nobody_knows(name: str, held: str) -> None:
    text = f"import torch\nfrom torch import nn\n\n{held.format(name)}\n"
    assert "HPU318" in settled(text)[1]
    assert not settled(text.replace("Sync", ""))[1]


MOVED = {
    "for _, p in net.named_parameters():\n        p.data = p.data.to({0})": True,
    "for p in net.parameters():\n        p.grad = p.grad.to({0})": True,
    "for k, v in state.items():\n        if isinstance(v, torch.Tensor):\n            state[k] = v.to({0})": True,
    "state = {{k: v.to({0}) if torch.is_tensor(v) else v for k, v in state.items()}}": True,
    "for k, v in state.items():\n        state[k] = v.to({0})": False,
    "batch = batch.to({0})": False,
}


@pytest.mark.parametrize(("moved", "number"), crossed(list(MOVED), ["device_id", "args.local_rank", "torch.cuda.current_device()"], rounds=3))  # fmt: skip
def test_what_is_surely_a_tensor_is_moved_beside_a_class_that_has_to(moved: str, number: str) -> None:  # fmt: skip
    own = "class Batch:\n    def to(self, device):\n        return self\n"
    text = f"import torch\n\n\n{own}\n\ndef f(net, state, batch, device_id, args):\n    {moved.format(number)}\n"
    done, _ = settled(text)
    if MOVED[moved]:
        assert '.to("hpu")' in done
    elif "current" in number:
        assert ".to(torch.hpu.current_device())" in done  # whatever it is
    else:
        assert done == text


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


@pytest.mark.parametrize(
    "name", ["losses.SoftmaxLoss", "SimilarityFunction.COSINE", "util.cos_sim"]
)
@pytest.mark.parametrize("use", ["x = {0}", "x = {0}(model=1)", "f(main={0})"])
def test_names_of_a_package_with_a_trainer_are_no_float16(name: str, use: str) -> None:
    text = f"import torch\nfrom sentence_transformers import SimilarityFunction, losses, util\n\n{use.format(name)}\nargs = make(fp16=True)\ntorch.ones(2).cuda()\n"
    assert "HPU209" not in settled(text)[1]


@pytest.mark.parametrize("call", ["Trainer({0}, rank)", "Trainer({0}, device=rank)", "engine.Trainer({0}, rank)", "move({0}, rank)", "move({0}, device=rank)"])  # fmt: skip
@pytest.mark.parametrize("given", ["model", "torch.ones(2)"])
def test_a_rank_that_another_file_takes_for_a_device_is_told(call: str, given: str, tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "engine.py").write_text(
        "class Other:\n    pass\n\n\nclass Trainer:\n    def __init__(self, model, device):\n        self.x = model.to(device)\n\n\ndef move(x, device):\n    return x.to(device)\n"
    )
    (tmp_path / "main.py").write_text(
        f"import torch\nimport engine\nfrom engine import Trainer, move\n\n\ndef run(rank, model):\n    torch.cuda.set_device(rank)\n    return {call.format(given)}\n"
    )
    found = migrate([tmp_path], Target(), write=False, jobs=1).files
    (main,) = [file for file in found if str(file.path).endswith("main.py")]
    assert [each.line for each in main.findings if each.code == "HPU105"] == [8]


PADDED = ["tokenizer(texts, padding={0})", "self.tokenizer.pad(rows, padding={0})", "tokenizer.batch_encode_plus(texts, padding={0})"]  # fmt: skip
LONGEST = {
    "True": True,
    "'longest'": True,
    "self.padding": True,
    "'max_length'": False,
    "False": False,
}


@pytest.mark.parametrize(("call", "padding"), crossed(PADDED, list(LONGEST), rounds=2))
@pytest.mark.parametrize("used", ["torch.ones(2).cuda()", "class T(Trainer):\n    pass"])
def test_rows_that_a_tokenizer_pads_to_the_longest_are_told(call: str, padding: str, used: str) -> None:  # fmt: skip
    text = f"import torch\nfrom transformers import Trainer\n\n\nclass C:\n    padding: bool = True\n\n    def __call__(self, tokenizer, texts, rows):\n        return {call.format(padding)}\n\n\n{used}\n"
    assert ("HPU525" in settled(text)[1]) == LONGEST[padding]
    assert "HPU525" not in settled(text.replace("padding=", "pad_to_multiple_of=8, padding="))[1]
    field = text.replace("    padding: bool", "    of: int = None\n    padding: bool").replace("padding=", "pad_to_multiple_of=self.of, padding=")  # fmt: skip
    assert ("HPU525" in settled(field)[1]) == LONGEST[padding]


@pytest.mark.parametrize("number", ["Accelerator().local_process_index", "int(os.environ['LOCAL_RANK'])", "torch.cuda.current_device()", "args.local_rank", "0"])  # fmt: skip
@pytest.mark.parametrize(
    "given", ["device_map={'': here}", "device_map=here", "**{'device_map': {'': here}}"]
)
def test_a_device_map_of_a_number_under_a_name_is_told(number: str, given: str) -> None:
    text = f"import os, torch\nfrom accelerate import Accelerator\nfrom transformers import AutoModel\n\n\ndef f(args):\n    here = {number}\n    return AutoModel.from_pretrained('a', {given})\n"
    assert "HPU702" in settled(text)[1]
    assert "HPU702" not in settled(text.replace(number, "'cpu'"))[1]


@pytest.mark.parametrize(
    "called", ["tokenizer(x)", "self.processor(x)", "model(x)", "text_encoder(x)"]
)
@pytest.mark.parametrize("made", ["AutoTokenizer.from_pretrained('a')", "load()"])
def test_a_tokenizer_is_no_model_that_a_loop_runs(called: str, made: str) -> None:
    name = called.partition("(")[0]
    text = f"import torch\nfrom transformers import AutoTokenizer\n\n\n@torch.no_grad()\ndef f(self, loader, load, device):\n    {name} = {made}\n    found = []\n    for x in loader:\n        found.append({called})\n    return torch.cat(found).to(device)\n"
    runs = name in ("model", "text_encoder")
    assert bool(severities(text, "HPU505")) == runs


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


GENERATING = [
    "attention_mask=m",
    "max_new_tokens=3",
    "do_sample=True, top_k=3",
    "pad_token_id=0, max_length=9",
]


@pytest.mark.parametrize("given", GENERATING)
@pytest.mark.parametrize("model", ["self.model", "self.actor.module", "engine.module"])
def test_generate_is_known_by_what_it_is_given(given: str, model: str) -> None:
    text = f"import torch\n\n\ndef f(self, engine, x, m):\n    return {model}.generate(x.cuda(), {given})\n"
    assert "HPU527" in settled(text)[1]
    assert "HPU527" not in settled(text.replace(given, "sampling_params=m"))[1]
    assert (
        "HPU527" not in settled(text.replace(given, f"{given}, cache_implementation='static'"))[1]
    )


@pytest.mark.parametrize("call", ["dist.all_gather({0}, x)", "dist.reduce_scatter(x, {0})"])
@pytest.mark.parametrize("part", ["params[i : i + n]", "params[i : min(i + n, 9)]"])
def test_a_parameter_for_each_rank_is_no_batch(call: str, part: str) -> None:
    text = f"import torch\nimport torch.distributed as dist\n\n\ndef f(params, n, x, device):\n    for i in range(0, 9, n):\n        x = x.to(device)\n        {call.format(part)}\n"
    assert not severities(text, "HPU526")
    assert severities(text.replace("dist.", "other."), "HPU526") == ["note"]


SETTINGS = ["transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments", "sentence_transformers.SentenceTransformerTrainingArguments", "trl.SFTConfig"]  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("given", ["'out', per_device_train_batch_size=8", "output_dir='out', per_device_train_batch_size=args.n, bf16=True"])  # fmt: skip
def test_a_trainer_keeps_its_short_last_batch_unless_it_is_told(name: str, given: str) -> None:
    package, _, last = name.partition(".")
    text = f"import torch\nfrom {package} import {last}\n\n\ndef f(args, more):\n    return {last}({given})\n"
    assert severities(text, "HPU526") == ["note"]
    assert not severities(text.replace(given, f"{given}, dataloader_drop_last=True"), "HPU526")
    assert not severities(text.replace(given, f"{given}, **more"), "HPU526")
    assert not severities(text.replace(f"from {package} ", "from own "), "HPU526")
    done = settle(text, "python", "ops.py", Context(Target(), load(), unsafe=True)).text
    assert f"{given}, dataloader_drop_last=True" in done


SCOPES = ["autocast if opt.amp else nullcontext", "nullcontext if opt.full else torch.autocast", "{'a': autocast, 'b': nullcontext}[opt.kind]"]  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("use", ["with scope('cuda'):", "with torch.no_grad(), scope('cuda'):"])
def test_an_autocast_that_is_chosen_takes_its_device(scope: str, use: str) -> None:
    text = f"import torch\nfrom contextlib import nullcontext\nfrom torch import autocast\n\n\ndef f(m, x, opt):\n    scope = {scope}\n    {use}\n        return m(x.cuda())\n"
    done, codes = settled(text)
    assert "scope('hpu')" in done
    assert "HPU010" not in codes
    assert "scope('cuda')" in settled(text.replace(scope, "opt.scope"))[0]


@pytest.mark.parametrize(
    "form",
    [
        "{0} and {1}",
        "{1} and {0}",
        "{0} and {1} and args.gpu",
        "args.gpu and {1} and {0}",
        "({1} and {0} and args.gpu)",
    ],
)
@pytest.mark.parametrize("place", ["d = 'cuda' if {0} else 'cpu'", "if {0}:\n        x = x.cuda()", "args.cuda = {0}"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual", "agnostic"])
def test_a_check_for_cudnn_beside_the_device_does_not_decide(form: str, place: str, style: str) -> None:  # fmt: skip
    asked = form.format("torch.cuda.is_available()", "torch.backends.cudnn.is_available()")
    text = f"import torch\n\n\ndef f(x, args):\n    {place.format(asked)}\n    return x\n"
    done = settled(text, style=style)[0]
    plain = text.replace("torch.backends.cudnn.is_available() and ", "").replace(" and torch.backends.cudnn.is_available()", "")  # fmt: skip
    assert "cudnn" not in done and "True" not in done
    assert ast.dump(ast.parse(done)) == ast.dump(ast.parse(settled(plain, style=style)[0])) or style == "agnostic"  # fmt: skip
    assert settled(done, style=style)[0] == done
    alone = text.replace("torch.cuda.is_available()", "args.fast")
    assert "torch.backends.cudnn.is_available()" in settled(alone, style=style)[0]


@pytest.mark.parametrize("kind", ["LongTensor", "FloatTensor", "ByteTensor"])
@pytest.mark.parametrize("given", ["size, device=device", "size, 3, device=0", "[1, 2], device=x.get_device()"])  # fmt: skip
def test_a_typed_tensor_that_is_made_on_the_cpu_names_no_device(kind: str, given: str) -> None:
    text = f"import torch\n\n\ndef f(x, size, device):\n    return torch.cuda.{kind}({given})\n"
    first = given.partition(", device")[0]
    assert settled(text)[0].splitlines()[-1] == f'    return torch.{kind}({first}).to("hpu")'


@pytest.mark.parametrize(
    "shown", ["print({0})", "logger.info({0})", "logger.info(f'card {{{0}}}')"]
)
@pytest.mark.parametrize("device", ["0", "'cuda'", "torch.device('cuda')"])
def test_properties_that_are_printed_are_those_of_gaudi(shown: str, device: str) -> None:
    call = f"torch.cuda.get_device_properties({device})"
    call = call.replace("'", '"')
    text = f"import torch\n\n\ndef f(logger):\n    {shown.format(call)}\n"
    done = settled(text)[0]
    assert "torch.hpu.get_device_properties(" in done and "cuda" not in done


FORKS = ["if os.fork() == 0:\n            return r", "child = os.fork()\n        if child == 0:\n            return r", "children.append(fork())"]  # fmt: skip
GROUPS = {
    "torch.distributed.init_process_group('nccl', rank=rank, world_size=n)": True,
    "dist.init_process_group(backend='gloo', rank=rank)": True,
    "torch.cuda.set_device(0)": False,
    "server.init_process_group(rank)": False,
}


@pytest.mark.parametrize(("fork", "group"), crossed(FORKS, list(GROUPS), rounds=3))
def test_processes_for_devices_are_no_forks(fork: str, group: str) -> None:
    text = f"import os\nfrom os import fork\nimport torch\nimport torch.distributed as dist\n\n\ndef launch(n, children):\n    for r in range(n):\n        {fork}\n\n\ndef start(rank, n):\n    {group}\n    return torch.zeros(2).cuda()\n"
    assert ("HPU316" in settled(text)[1]) is GROUPS[group]


COUNTED = ["args.{0} = torch.cuda.device_count()", "cfg.{0} = torch.cuda.device_count() if gpu else 1", "{0} = max(1, torch.cuda.device_count())"]  # fmt: skip
FACTORS = ["batch = args.bs * args.{0}", "lr = args.lr / max(args.{0}, 1)", "loader(batch_size=args.batch_size * args.{0})"]  # fmt: skip


@pytest.mark.parametrize(("counted", "factor", "name"), crossed(COUNTED, FACTORS, ["ngpu", "n_gpu", "num_gpus"], rounds=3))  # fmt: skip
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_count_of_another_file_is_a_factor(
    tmp_path: Path, counted: str, factor: str, name: str, elsewhere: bool
) -> None:
    """Only where the project counts devices under that name."""
    given = name if elsewhere else "other"
    (tmp_path / "setup_run.py").write_text(f"import torch\n\n\ndef start(args, cfg, gpu):\n    {counted.format(given)}\n")  # fmt: skip
    (tmp_path / "data.py").write_text(f"def loaders(args, loader):\n    {factor.format(name)}\n")
    found = {file.path: [f.code for f in file.findings] for file in analyse([tmp_path], Target(), jobs=1).files}  # fmt: skip
    assert ("HPU323" in found.get("data.py", [])) is elsewhere


CLONES = ["git clone https://github.com/NVIDIA/{0}.git", "git clone --depth 1 https://github.com/NVIDIA/{0} {0} && cd {0}", "git clone git@github.com:NVIDIA/{0}.git", "cd /tmp && git clone -b main ssh://git@github.com/NVIDIA/{0}/"]  # fmt: skip


@pytest.mark.parametrize("clone", CLONES)
@pytest.mark.parametrize(("package", "told"), [("apex", 1), ("flash-attention", 1), ("DeepLearningExamples", 0)])  # fmt: skip
@pytest.mark.parametrize("kind", ["shell", "dockerfile"])
def test_a_package_for_nvidia_is_cloned_to_be_installed(clone: str, package: str, told: int, kind: str) -> None:  # fmt: skip
    front = "RUN " if kind == "dockerfile" else "pip install torch\n"
    codes = settled(f"{front}{clone.format(package)}\n", kind, "install")[1]
    assert codes.count("HPU815") == told


ATTENTIONS = {
    "yaml": ["attn_implementation: {0}\n", "model:\n  _attn_implementation: \"{0}\"\n"],
    "json": ['{{"attn_implementation": "{0}"}}', '{{"model": {{"_attn_implementation": "{0}"}}}}'],
    "toml": ["[model]\nattn_implementation = '{0}'\n"],
    "shell": ["python train.py --attn_implementation {0}\n", "torchrun train.py model.attn_implementation={0}\n"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "form"), [(k, f) for k, forms in ATTENTIONS.items() for f in forms])  # fmt: skip
@pytest.mark.parametrize(("name", "told"), [("flash_attention_2", True), ("flash_attention_3", True), ("sdpa", False), ("eager", False)])  # fmt: skip
def test_an_attention_of_settings_needs_a_package(kind: str, form: str, name: str, told: bool) -> None:  # fmt: skip
    codes = settled(form.format(name), kind, f"train.{kind}")[1]
    assert bool({"HPU801", "HPU806"} & {*codes}) is told


SAID = ["CUDA is not available", "CUDA is not available. Running on the CPU will be slow.", "Sorry! CUDA is not found"]  # fmt: skip


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("show", ["print({0!r})", "logging.warning({0!r})", "raise RuntimeError({0!r})"])  # fmt: skip
def test_what_is_not_there_is_no_accelerator(said: str, show: str) -> None:
    text = f"import logging\nimport torch\n\nif not torch.cuda.is_available():\n    {show.format(said)}\nelse:\n    x = torch.zeros(2).cuda()\n"
    done = settled(text, style="agnostic")[0]
    assert said.replace("CUDA is not ", "No accelerator is ") in done


PLAIN = "model.unet.enable_xformers_memory_efficient_attention()"


@pytest.mark.parametrize(("form", "fixed", "level"), [
    ("    {0}\n    return model\n", True, "error"),
    ("    if fast:\n        {0}\n    return model\n", False, "warning"),
    ("    try:\n        {0}\n    except ImportError:\n        pass\n    return model\n", False, "note"),
    ("    try:\n        {0}\n        fast = True\n    except ModuleNotFoundError:\n        print('no')\n    return model\n", True, "note"),
])  # fmt: skip
def test_the_attention_of_xformers_can_be_left_out(form: str, fixed: bool, level: str) -> None:
    text = f"import torch\n\n\ndef f(model, fast):\n{form.format(PLAIN)}"
    done = settle(text, "python", "ops.py", Context(Target(), load()))
    (found,) = [finding for finding in done.findings if finding.code == "HPU722"]
    assert (found.fix is not None, found.severity) == (fixed, level)


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


GRAPHS = {"from torch_cluster import knn": "knn(x, x, 3)", "import torch_cluster": "torch_cluster.grid_cluster(x, x)", "import torch_sparse as ts": "ts.SparseTensor(x, x)", "import dgl": "dgl.knn_graph(x, 3)"}  # fmt: skip
#: Where it is used, and whether tensors on the device may come there.
PLACED = {
    "class Sampled:\n    def __call__(self, x):\n        return {}\n": False,
    "class Points(torch.utils.data.Dataset):\n    def __getitem__(self, i):\n        x = self.x[i]\n        return {}\n": False,
    "def prepare(x):\n    return {}\n": False,
    "class Net(torch.nn.Module):\n    def forward(self, x):\n        return {}\n": True,
    "class Conv(MessagePassing):\n    def forward(self, x):\n        return self.near(x)\n\n    def near(self, x):\n        return {}\n": True,
    "def near(x):\n    return {}\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return near(x)\n": True,
    "def train(net, loader, optimizer):\n    for x in loader:\n        loss = net({})\n        loss.backward()\n        optimizer.step()\n": True,
    "KINDS = 3\n": False,
}  # fmt: skip


@pytest.mark.parametrize(("graph", "around"), crossed(GRAPHS, PLACED, rounds=3))
def test_a_package_of_the_cpu_stops_steps_alone(graph: str, around: str) -> None:
    text = f"import torch\nfrom torch_geometric.nn import MessagePassing\n{graph}\n\n\n{around.format(GRAPHS[graph])}\n\nmodel = torch.nn.Linear(2, 2).cuda()\n"
    done = settle(text, "python", "ops.py", Context(Target(), load()))
    levels = [f.severity for f in done.findings if f.code == "HPU715" and f.line == 3]
    assert levels == ["error" if PLACED[around] else "warning"]
