"""How grave the same name is: what stops a program, and what the program can do without."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.codemods.analysis.project_facts import EXTENSIONS, MAKERS_NAMED
from hpushim.engine.context import Context
from hpushim.engine.one_file import examine
from hpushim.matrix import load
from hpushim.model import Finding, Target

FALLS_BACK = "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
STOPS = 'try:\n    from apex import amp\nexcept ImportError:\n    raise ImportError("get it")\n'
STOPS_UNLESS = 'try:\n    from apex import amp\nexcept ImportError:\n    if not SETUP:\n        raise ImportError("get it")\n'
USE = "\n\ndef build(model, optimizer):\n    model = model.cuda()\n    return amp.initialize(model, optimizer)\n"
WRAP = "\n\ndef wrap(model):\n    return DDP(model.cuda())\n"


def examined(text: str) -> tuple[Finding, ...]:
    return examine(text, "python", "train.py", Context(Target(), load()))


def severities(text: str, code: str) -> list[str]:
    return [f.severity for f in examined(text) if f.code == code]


@pytest.mark.parametrize(
    ("text", "code", "severity"),
    [
        (STOPS + USE, "HPU709", "error"),
        (STOPS_UNLESS + USE, "HPU709", "error"),
        (FALLS_BACK + USE, "HPU709", "note"),
        (STOPS + USE, "HPU212", "error"),
        (FALLS_BACK + USE, "HPU212", "warning"),
        ("from apex.parallel import DistributedDataParallel as DDP\n" + WRAP, "HPU718", "error"),
        (FALLS_BACK.replace("apex import amp", "apex.parallel import DistributedDataParallel as DDP") + WRAP, "HPU718", "warning"),
        ("import torch\n\nx = torch.nn.Embedding(4, 4, sparse=True).cuda()\n", "HPU124", "error"),
        ("import torch\n\nx = torch.nn.Embedding(4, 4, sparse=args.sparse).cuda()\n", "HPU124", "warning"),
        ("import torch\n\nprint(torch.version.cuda)\n", "HPU122", "note"),
        ("import torch\n\nnew = torch.version.cuda > '11'\n", "HPU122", "warning"),
    ],
)  # fmt: skip
def test_how_grave(text: str, code: str, severity: str) -> None:
    assert severities(text, code) == [severity]


def test_a_class_in_an_annotation_is_no_use_of_it() -> None:
    text = "from torch import nn\n\n\nclass Net(nn.Module):\n    rnn: nn.LSTM\n\n    def build(self, kind: nn.GRU) -> nn.RNN:\n        return nn.LSTM(2, 2)\n"
    assert severities(text, "HPU521") == ["warning"]


def test_loaders_that_prefetch_bring_the_batches() -> None:
    text = (
        "import torch\n\n\ndef train(model, loader, device):\n    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])\n"
        "    for images, target in loader:\n        model(images, target)\n\n\n"
    )
    assert severities(text, "HPU321") == ["error"]
    assert severities(text + "train(net, make(data, use_prefetcher=True), 0)\n", "HPU321") == []


def test_probes_and_switches_are_known() -> None:
    text = "import torch\n\nif getattr(torch.cuda.amp, 'autocast') is not None:\n    ok = True\nparser.add_argument('--cuda', dest='cuda', action='store_true')\n"
    assert severities(text, "HPU010") == severities(text, "HPU015") == []


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b'from x import CUDAExtension\nCUDAExtension("ours._C", [])\n', {b"ours._C"}),
        (b'from x import CUDAExtension\nExtension("ours.fast", ["fast.pyx"])\n', set()),
        (b'def make_ext(name, module):\n    return CUDAExtension(f"{module}.{name}")\nmake_ext("nms_cuda", "ours.ops")\n', {b"nms_cuda", b"*.nms_cuda", b"ours.ops.nms_cuda"}),
    ],
)  # fmt: skip
def test_names_of_extensions(data: bytes, names: set[bytes]) -> None:
    assert {*EXTENSIONS.find(data)} == names


def test_a_path_that_names_a_package_is_no_import_of_it() -> None:
    assert not [
        *MAKERS_NAMED.find(b"\n# ours-transformers\nfrom ours_transformers import Trainer\n")
    ]
    assert [*MAKERS_NAMED.find(b"\nfrom transformers import Trainer\n")] == [
        b"transformers.Trainer"
    ]
    assert [*MAKERS_NAMED.find(b"\nimport os, pytorch_lightning as pl\npl.Trainer()\n")] == [b"lightning.Trainer"]  # fmt: skip


#: How a package is imported, and whether the file can know that it is missing.
IMPORTED = {
    "try:\n    {}\nexcept ImportError:\n    pass\n": False,
    "try:\n    {}\nexcept ImportError:\n    pass  # optional\nexcept OSError:\n    pass\n": False,
    "try:\n    {}\nexcept ImportError:\n    pointops = None\n": True,
    "HAS = True\ntry:\n    {}\nexcept ImportError:\n    HAS = False\n": True,
    "try:\n    {}\nexcept ImportError:\n    print('no pointops')\n": True,
    "if FAST:\n    try:\n        {}\n    except ImportError:\n        pass\n": True,
    "def load():\n    global pointops\n    try:\n        {}\n    except ImportError:\n        pass\n": True,
}
FROM = ["import pointops", "from pointops.functions import pointops", "import pointops.functions as pointops"]  # fmt: skip
USES = {
    "def loss(a, b):\n    return pointops.knn(1, a, b)\n": True,
    "class Loss:\n    def forward(self, a, b):\n        i = pointops.knn(1, a, b)\n        return i\n": True,
    "def loss(a, b):\n    if FAST:\n        return pointops.knn(1, a, b)\n    return a\n": False,
    "def loss(a, pointops):\n    return pointops.knn(1, a, a)\n": False,
    "def loss(a):\n    return a\n": False,
}


@pytest.mark.parametrize(("way", "use"), crossed(list(IMPORTED), list(USES), rounds=5))
@pytest.mark.parametrize("line", FROM)
def test_an_import_that_fails_in_silence_stops_where_it_is_used(way: str, use: str, line: str) -> None:  # fmt: skip
    text = f"import torch\n\n{way.format(line)}\n\n{use}"
    found = [each for each in examined(text) if each.code == "HPU712"]
    stops = [each for each in found if each.severity == "error" and "NameError" in each.message]
    assert bool(stops) == (USES[use] and not IMPORTED[way])
    assert all(
        text.splitlines()[each.line - 1].strip().startswith(("return", "i =")) for each in stops
    )


#: What is taken from torch_scatter, and whether it is compiled for CUDA and the CPU alone.
TAKEN = {"scatter_min": True, "scatter_max": True, "segment_csr": True, "gather_coo": True, "scatter_softmax": True, "scatter": False, "scatter_add": False, "scatter_mean": False}  # fmt: skip


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("form", ["from torch_scatter import {0}", "from torch_scatter import {0} as {0}", "from torch_scatter import ({0},)", "from torch_scatter import scatter_std, {0}"])  # fmt: skip
@pytest.mark.parametrize("step", [True, False])
def test_what_is_compiled_of_torch_scatter_stops_in_a_step(taken: str, form: str, step: bool) -> None:  # fmt: skip
    body = f"    for x in loader:\n        {taken}(net(x.cuda()), x)[0].sum().backward()\n" if step else f"    return {taken}(loader, net)\n"  # fmt: skip
    text = f"import torch\n{form.format(taken)}\n\n\ndef f(net, loader):\n{body}"
    found = {each.severity for each in examined(text) if each.code == "HPU715"}
    assert ("error" in found) == (TAKEN[taken] and step)


@pytest.mark.parametrize("kind", ["min", "max", "mul"])
@pytest.mark.parametrize(("imported", "called", "shown"), [
    ("from torch_scatter import scatter", "scatter(x, i, reduce='{}')", '`scatter(reduce="{}")` on line 5'),
    ("from torch_scatter import scatter as join", "join(x, i, reduce='{}')", '`join(reduce="{}")` on line 5'),
    ("import torch_scatter", "torch_scatter.scatter(x, i, reduce='{}')", '`scatter(reduce="{}")` on line 5'),
    ("import torch_scatter", "torch_scatter.scatter_{}(x, i)", "`torch_scatter.scatter_{}` on line 5"),
])  # fmt: skip
def test_a_part_of_a_package_is_named_as_the_code_uses_it(imported: str, called: str, shown: str, kind: str) -> None:  # fmt: skip
    found = examined(
        f"import torch\n{imported}\n\ndef f(x, i):\n    return {called.format(kind)}.cuda()\n"
    )
    assert [each.message.partition(":")[0] for each in found if each.code == "HPU715"] == [
        shown.format(kind)
    ]
