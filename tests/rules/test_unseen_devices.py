"""Devices in forms that unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

import ast

import pytest
from crossed import crossed
from one_text import settled

from hpushim.matrix import load

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
    wanted = place.format(card.replace("torch.cuda", "torch.hpu") if number else '"hpu:0"')
    assert settled(text)[0].endswith(f"    return {wanted}\n".replace("\"hpu:0\"", "'hpu:0'" if "'cpu'" in place else '"hpu:0"'))  # fmt: skip


SUFFIXES = {"f':{i}' if i else ''": True, "':' + str(i) if many else ''": True, "''": True, "':%d' % i": True, "'11.8'": False, "version": False, "f'-{i}'": False}  # fmt: skip


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("form", ["f'cuda{s}'", "'cuda' + s", "'cuda{}'.format(s)", "'cuda%s' % s"])
def test_a_suffix_of_a_device_is_a_number_or_nothing(suffix: str, form: str) -> None:
    text = f"import torch\n\n\ndef f(x, i, many, version):\n    s = {suffix}\n    return x.to({form})\n"
    assert ("cuda" not in settled(text)[0]) == SUFFIXES[suffix]


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


@pytest.mark.parametrize("torch", ["import torch", "import torch as th"])
@pytest.mark.parametrize(("compared", "after"), [("device.type == {0}", 'device.type != "cpu"'), ("{0} == device.type", 'device.type != "cpu"'), ("device.type != {0}", 'device.type == "cpu"')])  # fmt: skip
def test_the_type_of_a_made_device_is_compared_as_its_text(torch: str, compared: str, after: str) -> None:  # fmt: skip
    name = torch.rpartition(" ")[2]
    test = compared.format(f'{name}.device("cuda").type')
    text = f"{torch}\n\n\ndef f(device: {name}.device):\n    if {test} and not {name}.cuda.is_available():\n        return {name}.device('cpu')\n    return device\n"
    done, _ = settled(text, style="agnostic")
    assert f"    if {after} and not {name}.accelerator.is_available():\n" in done.replace("'", '"')
    assert "current_accelerator" not in done


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


@pytest.mark.parametrize("number", ["Accelerator().local_process_index", "int(os.environ['LOCAL_RANK'])", "torch.cuda.current_device()", "args.local_rank", "0"])  # fmt: skip
@pytest.mark.parametrize(
    "given", ["device_map={'': here}", "device_map=here", "**{'device_map': {'': here}}"]
)
def test_a_device_map_of_a_number_under_a_name_is_told(number: str, given: str) -> None:
    text = f"import os, torch\nfrom accelerate import Accelerator\nfrom transformers import AutoModel\n\n\ndef f(args):\n    here = {number}\n    return AutoModel.from_pretrained('a', {given})\n"
    assert "HPU702" in settled(text)[1]
    assert "HPU702" not in settled(text.replace(number, "'cpu'"))[1]


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


JOINED = ["self.config.update(state['config'])", "self.config.update(**state)", "self.config |= state['config']", "self.config = {**self.config, **state['config']}", "self.config.setdefault('x', state['x'])"]  # fmt: skip
ENTRIES = ["x = x.to(self.config['device'])", "x = torch.ones(2, device=self.config['place'])", "self.net = torch.nn.parallel.DistributedDataParallel(self.net, output_device=self.config['local_rank'])"]  # fmt: skip


@pytest.mark.parametrize("joined", JOINED)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_flag_beside_a_device_in_a_table_keeps_its_key(joined: str, entry: str) -> None:
    text = (
        f"import torch\n\n\nclass M:\n    def __init__(self, opt):\n        self.config = opt\n\n    def f(self, x):\n"
        f"        if self.config['cuda']:\n            x = x.cuda()\n        {entry}\n        return x\n\n    def load(self, state):\n        {joined}\n"
    )
    done, _ = settled(text)
    assert "self.config['cuda']" in done
    assert "x = x.to('hpu')" in done


@pytest.mark.parametrize("filled", ["table.update({0})", "table = {{**table, **{0}}}", "table |= {0}"])  # fmt: skip
def test_a_table_of_devices_is_looked_up_by_hpu(filled: str) -> None:
    more = filled.format('{"cuda": "b"}')
    text = f'import torch\n\n\ndef f(x):\n    table = {{"cpu": "a"}}\n    {more}\n    return table[x.device.type]\n'
    assert '"hpu"' in settled(text)[0]


#: How a device is chosen whose number goes to set_device, and the number that is written there; "" where it is left.
CHOSEN = {
    "if many:\n        d = {0}\n    else:\n        d = 'cuda:0'": "rank if many else 0",
    "if args.many and not args.off:\n        d = {0}\n    else:\n        d = torch.device('cuda')": "rank if args.many and not args.off else 0",
    "d = {0} if many else 'cuda'": "rank if many else 0",
    "d = {0} if torch.cuda.is_available() else 'cpu'": "rank",
    "d = 'cuda'\n    d = {0}": "rank",
    "if f():\n        d = {0}\n    else:\n        d = 'cuda:0'": "",
    "if many:\n        d = {0}\n    elif args:\n        d = 'cuda'\n    else:\n        d = 'cuda:0'": "",
    "d = make(rank)": "",
}


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("device", ["'cuda:%d' % rank", "f'cuda:{rank}'", "torch.device('cuda', rank)", "torch.device(f'cuda:{rank}')"])  # fmt: skip
@pytest.mark.parametrize("place", ["torch.cuda.set_device(d)", "if many:\n        torch.cuda.set_device(d)"])  # fmt: skip
def test_the_number_of_a_chosen_device_reaches_set_device(chosen: str, device: str, place: str) -> None:  # fmt: skip
    text = f"import torch\n\n\ndef make(rank):\n    return {device}\n\n\ndef f(rank, many, args, x):\n    {chosen.format(device)}\n    {place}\n    return x.to(d)\n"
    done, codes = settled(text)
    if CHOSEN[chosen]:
        assert f"torch.hpu.set_device({CHOSEN[chosen]})\n" in done
        assert "cuda" not in done
    else:
        assert "torch.cuda.set_device(d)" in done and device in done.replace('"', "'")
        assert "HPU110" in settled(done)[1]
    assert "HPU110" in codes
    assert settled(done)[0] == done


OTHER_BRANCH = {"'cuda'": True, "f'cuda:{k}'": True, "torch.device('cuda')": True, "'cpu'": False, "torch.device('cpu')": False}  # fmt: skip
COUNTED = ["k % torch.cuda.device_count()", "int(os.environ['LOCAL_RANK'])", "torch.cuda.current_device()"]  # fmt: skip


@pytest.mark.parametrize("other", OTHER_BRANCH)
@pytest.mark.parametrize("number", COUNTED)
@pytest.mark.parametrize("moved", ["x.to({0})", "x.to({0}, non_blocking=True)", "torch.ones(2, device={0})"])  # fmt: skip
def test_a_number_beside_a_text_is_the_device(other: str, number: str, moved: str) -> None:
    text = f"import os, torch\n\n\ndef f(x, k, many):\n    torch.ones(1).cuda()\n    if many:\n        device = {number}\n    else:\n        device = {other}\n    return {moved.format('device')}\n"
    done, codes = settled(text)
    last = done.splitlines()[-1].replace("'", '"')
    assert last == "    return " + moved.format('"hpu"' if OTHER_BRANCH[other] else "device")
    assert {"HPU104", "HPU105"} & set(codes)


SECOND = ["x.to({0})", "torch.ones(2, device={0})", "torch.device({0})", "config['device'] = {0}", "d = {0} if torch.cuda.is_available() else 'cpu'\n    x.to(d)"]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), crossed(SECOND, SECOND, rounds=3))
@pytest.mark.parametrize("style", ["native", "dual"])
@pytest.mark.parametrize("numbers", [("0", "1"), ("2", "3")])
def test_a_second_device_is_left_and_found_again(one: str, other: str, style: str, numbers: tuple[str, str]) -> None:  # fmt: skip
    first, second = (f"'cuda:{number}'" for number in numbers)
    text = f"import torch\n\n\ndef f(x, config):\n    {one.format(first)}\n\n\ndef g(x, config):\n    {other.format(second)}\n"
    done, codes = settled(text, style=style)
    assert "HPU121" in codes
    assert second in done
    again, found = settled(done, style=style)
    assert again == done and "HPU121" in found


@pytest.mark.parametrize("place", ["torch.load(p, map_location='cuda:0')", "torch.cuda.set_device('cuda:0')"])  # fmt: skip
def test_a_place_of_a_load_is_no_second_device(place: str) -> None:
    text = f"import torch\n\n\ndef f(p, x):\n    {place}\n    return x.to('cuda:1')\n"
    done, codes = settled(text)
    assert "HPU121" not in codes and "cuda" not in done


@pytest.mark.parametrize("name", ["target", "where", "kind: str"])
@pytest.mark.parametrize("asked", ["assert {0} == 'cuda'", "if {0} != 'cuda':\n            raise ValueError", "return {0} in ('cuda', 'cpu')"])  # fmt: skip
def test_what_a_method_to_gets_is_a_device(name: str, asked: str) -> None:
    shown = asked.format(name.partition(":")[0])
    text = f"import torch\n\n\nclass Model:\n    def to(self, {name}):\n        {shown}\n"
    assert "cuda" not in settled(text)[0]
    assert "cuda" in settled(text.replace("def to", "def at").replace(", 'cpu'", ", 'x'"))[0]


def test_a_package_with_words_of_its_own_for_devices_is_told() -> None:
    text = "import torch\nfrom rwkv.model import RWKV\n\nx = torch.ones(1).cuda()\nmodel = RWKV(model='m', strategy='cuda fp16')\n"
    done, codes = settled(text)
    assert "HPU714" in codes and "'cuda fp16'" in done


#: How a table of settings is filled, in which some value is a device.
FILLED = [
    "for k, v in zip(keys, given):\n        t[k] = v",
    "for k, v in given.items():\n        t[k] = v",
    "for k in given.keys():\n        t[k] = given[k]",
    "for k in keys:\n        t.setdefault(k, given[k])",
    "t.update(given)",
    "t |= given",
    "t['rank'] = keys\n    t.update(vars(given))",
]
ASKED = ["if {0}['cuda']:\n        x = x * 2", "x = x * 2 if {0}['cuda'] else x", "if {0}.get('cuda'):\n        x = x * 2"]  # fmt: skip


@pytest.mark.parametrize("filled", FILLED)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("place", ["torch.ones(2, device=t['rank'])", "x.to(t['device'])", "torch.device(t['rank'])"])  # fmt: skip
def test_a_key_is_no_device_because_some_value_is_one(filled: str, asked: str, place: str) -> None:
    text = f"import torch\n\n\ndef f(x, keys, given):\n    t = {{}}\n    {filled}\n    {asked.format('t')}\n    x = x.cuda()\n    return {place}\n"
    done, codes = settled(text)
    assert asked.format("t") in done
    assert {"HPU125", "HPU015", "HPU010"} & {*codes}


@pytest.mark.parametrize("filled", FILLED)
@pytest.mark.parametrize("asked", ASKED)
def test_nor_in_a_class_that_keeps_the_table(filled: str, asked: str) -> None:
    text = f"import torch\n\n\nclass A:\n    def __init__(self, t, x, keys, given):\n        self.t = t\n        self.x = torch.ones(2, device=self.t['rank'])\n\n    def g(self, x):\n        {asked.format('self.t').replace('        ', '            ')}\n        return x.cuda()\n\n\ndef f(x, keys, given):\n    t = {{}}\n    {filled}\n    return A(t, x, keys, given)\n"
    assert "['cuda']" in (done := settled(text)[0]) or ".get('cuda')" in done


@pytest.mark.parametrize(
    "filled",
    [
        "t = dict.fromkeys(['cpu', 'cuda'], 0)",
        "t = {k: 1 for k in ('cpu', 'cuda')}",
        "t = {}\n    for k in ['cpu', 'cuda']:\n        t[k] = 1",
        "t = {}\n    t[torch.ones(2).device.type] = 2",
        "t = {}\n    t.setdefault(torch.ones(2).device.type, 2)",
        "s = {}\n    s[torch.ones(2).device.type] = 2\n    t = {}\n    t.update(s)",
        "s = {'cpu': 0, 'cuda': 1}\n    t = {}\n    for k, v in s.items():\n        t[k] = v\n    t[x.device.type] = 2",
    ],
)
@pytest.mark.parametrize("asked", ["t['cuda']", "t.get('cuda')"])
def test_a_key_is_a_device_because_another_is_one(filled: str, asked: str) -> None:
    text = f"import torch\n\n\ndef f(x):\n    {filled}\n    return {asked}, x.cuda()\n"
    assert "cuda" not in settled(text)[0]


#: A device put together of a variable and a number, how it reaches set_device, and what is written there; "" where it is left.
COMPOSED = {
    "d = f'{kind}:{rank}'": "rank",
    "d = kind + ':' + str(rank)": "rank",
    "d = '%s:%d' % (kind, rank)": "rank",
    "d = torch.device(kind, rank)": "rank",
    "d = torch.device(f'{kind}:{rank}')": "rank",
    "d = kind\n    d += f':{rank}'": "",
    "d = kind\n    if many:\n        d = f'{d}:{rank}'": "",
    "d = f'{kind}:{find()}'": "",
}


@pytest.mark.parametrize("composed", COMPOSED)
@pytest.mark.parametrize("device", ["'cuda'", "'cuda' if torch.cuda.is_available() else 'cpu'"])
@pytest.mark.parametrize("after", ["return x.to(d)", "return x.cuda()"])
def test_the_number_of_a_composed_device_reaches_set_device(composed: str, device: str, after: str) -> None:  # fmt: skip
    text = f"import torch\n\n\ndef f(x, rank, many):\n    kind = {device}\n    {composed}\n    torch.cuda.set_device(d)\n    {after}\n"
    done, codes = settled(text)
    if COMPOSED[composed]:
        assert f"torch.hpu.set_device({COMPOSED[composed]})\n" in done
        assert "cuda" not in done
    else:
        assert "torch.cuda.set_device(d)" in done and f"kind = {device}" in done
        assert "HPU110" in codes


@pytest.mark.parametrize("put", ["c.device = f'{c.device}:{c.gpu}'", "c.device += f':{c.gpu}'", "c['device'] = f\"{c['device']}:{c.gpu}\""])  # fmt: skip
@pytest.mark.parametrize("made", ["C(device='cuda', gpu=rank)", "SimpleNamespace(device='cuda', gpu=rank)"])  # fmt: skip
def test_the_number_in_an_entry_is_not_lost_in_silence(put: str, made: str) -> None:
    given = put.partition(" ")[0]
    text = f"import torch\nfrom types import SimpleNamespace\n\n\nclass C(dict):\n    __getattr__ = dict.get\n\n\ndef f(rank):\n    c = {made}\n    {put}\n    torch.cuda.set_device({given})\n"
    done, codes = settled(text)
    assert "HPU110" in codes
    left = (
        f"torch.cuda.set_device({given})" in done or put in done
    )  # or the device keeps its number
    assert left or "set_device(c.gpu)" in done


#: What takes the number of the current device, and whether it takes none any more.
TAKERS = {
    "x.cuda(d)": True,
    "x.cuda(device=d)": True,
    "torch.nn.parallel.DistributedDataParallel(x.cuda(), device_ids=[d], output_device=d)": True,
    "torch.load(x, map_location=lambda storage, loc: storage.cuda(d))": True,
    "x.cuda(d) + d": False,
    "(x.cuda(), print(d))": False,
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("place", ["d = torch.cuda.current_device()", "d = e = torch.cuda.current_device()", "d = torch.cuda.current_device() + 1", "d = torch.cuda.current_device()\n    d = d + 1"])  # fmt: skip
@pytest.mark.parametrize("style", ["native", "dual"])
def test_a_number_that_nothing_takes_any_more_goes(taker: str, place: str, style: str) -> None:
    text = f"import torch\n\n\ndef f(x):\n    {place}\n    return {taker}\n"
    goes = TAKERS[taker] and place == "d = torch.cuda.current_device()" and style == "native"
    assert ("current_device()" in settled(text, style=style)[0]) == (not goes)
    assert "current_device()" in settled(text.replace("def f(x):\n    ", "x = 1\nif x:\n    ").replace("    return", "   "), style=style)[0]  # fmt: skip
