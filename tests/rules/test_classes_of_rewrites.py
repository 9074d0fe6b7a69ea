"""Rewrites that were wrong once, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

from itertools import product

import pytest
from crossed import crossed

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

HEAD = "import torch\nfrom torch.cuda import FloatTensor as Float\n\nn = 4\n"


def rewritten(statement: str, kind: str = "python", name: str = "ops.py") -> str:
    """The last statement of a file after the rewrite."""
    context = Context(Target(mode="eager"), load())
    head = HEAD if kind == "python" else ""
    done = settle(f"{head}{statement}\n", kind, name, context)  # type: ignore[arg-type]
    assert not [f for f in done.findings if f.code == "HPU004"]
    return done.text.rpartition("n = 4\n")[2].rstrip("\n")


SIZES = ["3", "3, 4", "n", "2 * n, 1", "x.size()", "x.shape", "x.size(0)", "x.shape[1]", "len(xs)", "*x.shape", "n, *rest", "x.numel() // 2", "total.item()", "int(args.n)", "torch.Size([2])", "x.shape[:2]"]  # fmt: skip
DATA = ["[3, 4]", "xs", "np.zeros(3)", "x.tolist()", "[]", "given", "*given", "(1, 2)"]
MADE = ["torch.cuda.FloatTensor({0})", "torch.FloatTensor({0}).cuda()", "torch.FloatTensor({0}).cuda(rank)", "Float({0})"]  # fmt: skip


@pytest.mark.parametrize(("form", "size"), crossed(MADE, SIZES, rounds=3))
def test_sizes_are_made_on_the_card(form: str, size: str) -> None:
    made = rewritten(f"y = {form.format(size)}")
    assert made == f'y = torch.empty({size}, dtype=torch.float32, device="hpu")'


@pytest.mark.parametrize(("form", "data"), crossed(MADE, DATA, rounds=3))
def test_data_is_made_on_the_host_and_moved(form: str, data: str) -> None:
    name = "Float" if form.startswith("Float") else "torch.FloatTensor"  # whose import moves
    assert rewritten(f"y = {form.format(data)}") == f'y = {name}({data}).to("hpu")'


@pytest.mark.parametrize("between", [".normal_()", ".view(2)", ".uniform_(0, 1)", "[0]"])
def test_what_is_done_on_the_host_is_done_there(between: str) -> None:
    made = rewritten(f"y = torch.FloatTensor(3){between}.cuda()")
    assert made == f'y = torch.FloatTensor(3){between}.to("hpu")'


CARDS = ['f"cuda:{i}"', '"cuda:" + str(i)', '"cuda:%d" % i', '"cuda:{}".format(i)', 'torch.device("cuda", i)', 'torch.device(f"cuda:{i}")', "x.cuda(i)", 'x.to(f"cuda:{i}")']  # fmt: skip
COLLECTED = ["[{0} for i in range(n)]", "{{{0} for i in cards}}", "{{i: {0} for i in range(2 * n)}}", "list({0} for i, x in enumerate(xs))", "[{0} for x in xs for i in x]"]  # fmt: skip


@pytest.mark.parametrize(("form", "card"), crossed(COLLECTED, CARDS, rounds=3))
def test_a_list_of_cards_stays(form: str, card: str) -> None:
    statement = f"devices = {form.format(card)}"
    assert rewritten(statement) == statement


@pytest.mark.parametrize("form", ["[{0} for i in range(torch.cuda.device_count())]", "{{i: {0} for i in range(n)}}"])  # fmt: skip
@pytest.mark.parametrize("card", [card for card in CARDS if card != "x.cuda(i)"])
def test_a_list_of_all_cards_keeps_their_numbers(form: str, card: str) -> None:
    statement = f"n = torch.cuda.device_count()\ndevices = {form.format(card)}"
    assert rewritten(statement) == statement.replace("cuda", "hpu")


@pytest.mark.parametrize("form", ['["{0}", "{1}"]', '("{0}", "{1}", "cpu")', '{{"a": "{0}", "b": "{1}"}}', 'torch.device("{0}"), torch.device("{1}")'])  # fmt: skip
def test_two_cards_in_a_list_stay_and_one_does_not(form: str) -> None:
    several = f"devices = {form.format('cuda:0', 'cuda:1')}"
    assert rewritten(several) == several
    assert "cuda" not in rewritten(f"devices = {form.format('cuda:0', 'cuda:0')}")


@pytest.mark.parametrize("form", ["[x.cuda() for x in xs]", '[x.to("cuda") for x in xs]', '[x.to(f"cuda:{rank}") for x in xs]', "[x.cuda(rank) for x in xs]"])  # fmt: skip
def test_a_list_of_what_is_moved_to_one_card_is_rewritten(form: str) -> None:
    assert "cuda" not in rewritten(f"ys = {form}")


LISTS = ["subprocess.run([{0}])", "command = ['python', 'train.py', {0}]", "command += ({0}, 'x')", "popen(args=['-m', 'train', {0}])"]  # fmt: skip
GIVEN = {
    '"--device", "cuda"': '"--device", "hpu"',
    '"--device=cuda:1"': '"--device=hpu"',
    "'-device', 'cuda'": "'-device', 'hpu'",
    '"--dist-backend", "nccl", "--device", "cuda"': '"--dist-backend", "hccl", "--device", "hpu"',
    '"--name", "cuda"': '"--name", "cuda"',
}


@pytest.mark.parametrize(("form", "given"), crossed(LISTS, GIVEN, rounds=3))
def test_the_options_of_one_list_go_together(form: str, given: str) -> None:
    assert rewritten(form.format(given)) == form.format(GIVEN[given])


AROUND = ["{0}", "for i in 1 2; do\n  {0}\ndone", "if a; then\n  {0}\nelse\n  b\nfi", "run() {{\n  {0}\n}}", "while read x; do\n  if a; then\n    {0}\n  fi\ndone", "case $1 in\n  a) {0} ;;\nesac"]  # fmt: skip


@pytest.mark.parametrize(("around", "command"), list(product(AROUND, ["python train.py", "cd x && torchrun train.py"])))  # fmt: skip
def test_the_mode_is_said_once_at_the_top(around: str, command: str) -> None:
    text = "set -e\n" + around.format(f"{command} --device cuda")
    wanted = text.replace("cuda", "hpu").replace("set -e\n", "set -e\nexport PT_HPU_LAZY_MODE=0\n")
    assert rewritten(text, "shell", "run.sh") == wanted


SAID = ["assert {0}, {1}", "if not {0}: raise RuntimeError({1})", "if {0}:\n    print({1})", "if a:\n    if not {0}:\n        logger.warning({1})", "print({1}, {0})"]  # fmt: skip
ASKED = ["torch.cuda.is_available()", "x.is_cuda", 'device.type == "cuda"']


@pytest.mark.parametrize(("form", "asked"), crossed(SAID, ASKED, rounds=3))
def test_messages_name_what_is_asked_for(form: str, asked: str) -> None:
    said = rewritten(form.format(asked, '"needs a CUDA device, not cuda:7 or CUDA 12"'))
    assert '"needs a CUDA device, not cuda:7 or CUDA 12"' in said  # a version is something else
    said = rewritten(form.format(asked, "'needs a CUDA device'"))
    assert "'needs an HPU device'" in said


OWN_MOVE = "class Batch:\n    def __init__(self, data):\n        self.data = data\n    def cuda(self):\n        return self\n\nn = 4\n"
NAMED = ["b = Batch(1)\n{0}\nb = {1}", "b = Batch(1)\n{0}\nc = {1}\nc.float()", "b = Batch(1)\n{1}\nfor b in rows:\n    {0}", "b = make() or Batch(1)\n{0}\nb = {1}"]  # fmt: skip
USED = ["b.data.is_cuda", "b.float()", "b.requires_grad_()", "b.view(-1).backward()"]


@pytest.mark.parametrize(("form", "use"), crossed(NAMED, USED, rounds=3))
def test_what_may_have_a_move_of_its_own_keeps_it_however_its_name_is_used(
    form: str, use: str
) -> None:
    assert "b.cuda()" in rewritten(OWN_MOVE + form.format(use, "b.cuda()"))
