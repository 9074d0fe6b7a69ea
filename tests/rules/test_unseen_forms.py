"""What unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
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
