"""Other libraries in forms that unseen repositories showed, each as a class: the forms in which people write the thing, times what they put in."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from one_text import settled, severities

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.engine.project import analyse
from hpushim.matrix import load
from hpushim.model import Target

PREFIXES = {"'2'": None, "'2.'": None, "'1'": False, "'1.'": False, "'2.1'": None, "'2.1.'": False, "'2.5.'": False, "('0.', '1.')": False, "('1.', '2.')": None}  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("version", ["torch.__version__", "str(torch.__version__)"])
def test_what_a_release_begins_with(prefix: str, version: str) -> None:
    text = f"import torch\n\nif {version}.startswith({prefix}):\n    x = x.cuda()\nelse:\n    y = y.cuda()\n"
    done = settled(text)[0]
    assert ("x = x.cuda()" in done) == (PREFIXES[prefix] is False)
    assert "y = y.to" in done


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


@pytest.mark.parametrize("passed", ["hpushim.lightning.HPUAccelerator()", "hpushim.lightning.accelerator('gpu')", "own"])  # fmt: skip
def test_its_own_accelerator_is_not_reported(passed: str) -> None:
    text = f"import pytorch_lightning as pl\nimport hpushim.lightning\n\nown = hpushim.lightning.HPUAccelerator()\npl.Trainer(max_epochs=3, accelerator={passed}).fit(m)\n"
    assert "HPU503" not in settled(text)[1]
    assert "HPU503" in settled(text.replace(f"accelerator={passed}", "accelerator=args.a"))[1]


@pytest.mark.parametrize("made", ["LLM('a')", "engine.LLM('a')", "Engine()"])
@pytest.mark.parametrize("call", ["{0}.generate(ids, sampling_params=p)", "{0}.generate(prompt_token_ids=ids)"])  # fmt: skip
def test_only_transformers_generate_with_its_cache(made: str, call: str) -> None:
    text = f"import engine, torch\nfrom engine import LLM\nfrom transformers import AutoModel\n\n\nclass Engine(LLM):\n    pass\n\n\nhf = AutoModel.from_pretrained('a').cuda()\nllm = {made}\n{call.format('llm')}\n"
    assert "HPU527" not in settled(text)[1]
    assert "HPU527" in settled(text.replace("llm.generate", "hf.generate"))[1]
    assert "HPU527" in settled(text.replace("Engine(LLM)", "Engine(torch.nn.Module)").replace(f"llm = {made}", "llm = Engine()"))[1]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["losses.SoftmaxLoss", "SimilarityFunction.COSINE", "util.cos_sim"]
)
@pytest.mark.parametrize("use", ["x = {0}", "x = {0}(model=1)", "f(main={0})"])
def test_names_of_a_package_with_a_trainer_are_no_float16(name: str, use: str) -> None:
    text = f"import torch\nfrom sentence_transformers import SimilarityFunction, losses, util\n\n{use.format(name)}\nargs = make(fp16=True)\ntorch.ones(2).cuda()\n"
    assert "HPU209" not in settled(text)[1]


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
    assert "HPU525" not in settled(text.replace("padding=", "pad_to_multiple_of=128, padding="))[1]
    field = text.replace("    padding: bool", "    of: int = None\n    padding: bool").replace("padding=", "pad_to_multiple_of=self.of, padding=")  # fmt: skip
    assert ("HPU525" in settled(field)[1]) == LONGEST[padding]


@pytest.mark.parametrize(
    "called", ["tokenizer(x)", "self.processor(x)", "model(x)", "text_encoder(x)"]
)
@pytest.mark.parametrize("made", ["AutoTokenizer.from_pretrained('a')", "load()"])
def test_a_tokenizer_is_no_model_that_a_loop_runs(called: str, made: str) -> None:
    name = called.partition("(")[0]
    text = f"import torch\nfrom transformers import AutoTokenizer\n\n\n@torch.no_grad()\ndef f(self, loader, load, device):\n    {name} = {made}\n    found = []\n    for x in loader:\n        found.append({called})\n    return torch.cat(found).to(device)\n"
    runs = name in ("model", "text_encoder")
    assert bool(severities(text, "HPU505")) == runs


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


#: How an import may fail and still be needed: what the other branch imports is of the same package.
BRANCHES = {"import spconv": True, "from spconv import ops": True, "spconv = None": False, "import numpy as spconv": False, "try:\n        import spconv\n    except ImportError:\n        spconv = None": False}  # fmt: skip


@pytest.mark.parametrize("instead", BRANCHES)
@pytest.mark.parametrize("first", ["import spconv.pytorch as spconv", "from spconv.pytorch import ops"])  # fmt: skip
@pytest.mark.parametrize("caught", ["except:", "except ImportError:", "except Exception:"])
def test_another_way_into_the_package_is_no_way_without_it(instead: str, first: str, caught: str) -> None:  # fmt: skip
    text = f"import torch\n\ntry:\n    {first}\n{caught}\n    {instead}\n\ntorch.ones(2).cuda()\n"
    found = severities(text, "HPU712")
    assert (found[0] == "error") is BRANCHES[instead], found


@pytest.mark.parametrize("written", ["from . import iou_cuda", "from .iou_cuda import go", "import iou_cuda", "from . import iou_cuda as k, other"])  # fmt: skip
@pytest.mark.parametrize("own", [False, True])
def test_an_extension_that_is_built_beside_its_users(written: str, own: bool, tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops/setup.py").write_text("from torch.utils.cpp_extension import CUDAExtension\nCUDAExtension('iou_cuda', ['a.cu'])\n")  # fmt: skip
    (tmp_path / "ops/iou.py").write_text(f"import torch\n{written}\n")
    if own:
        (tmp_path / "iou_cuda.py").write_text("go = 1\n")
    report = analyse([tmp_path], Target())
    found = {f.code for file in report.files for f in file.findings if file.path == "ops/iou.py"}
    assert ("HPU723" in found) is not (own and written.startswith("from ."))
