"""What counts as an optimizer's step, and where a mark goes in awkward places."""

from __future__ import annotations

from pathlib import Path

import pytest
from crossed import crossed
from test_imports import migrated

from hpushim.engine.project import migrate
from hpushim.model import Target

HEAD = "import torch\nimport habana_frameworks.torch.core as htcore\n\n"


def marks(body: str) -> list[str]:
    """The statements, stripped, that stand in front of the marks of a function ``f``."""
    text = HEAD + "def f(model, x, device):\n    x = x.to(device)\n"
    text += "".join(f"    {line}\n" for line in body.splitlines())
    found = migrated(text, mode="lazy").splitlines()
    return [
        found[i - 1].strip() for i, line in enumerate(found) if line.strip() == "htcore.mark_step()"
    ]


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.Adam(model.parameters())",
        "build_optimizer(model)",
        "model.configure_optimizers(3)",
        "transformers.AdamW(model.parameters())",
        "apex.optimizers.FusedLAMB(model.parameters())",
        "Lion(model.parameters())",
        "ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)",
    ],
)
def test_what_a_name_was_given_makes_it_an_optimizer(made: str) -> None:
    assert marks(f"thing = {made}\nthing.step()") == ["thing.step()"]


@pytest.mark.parametrize(
    "made",
    [
        "torch.optim.lr_scheduler.StepLR(torch.optim.Adam(model.parameters()), 3)",
        "torch.profiler.profile()",
        "gym.make('CartPole-v1')",
        "GradualWarmupScheduler(3)",
        "WandbStepper()",
        "parser.parse_args()",
    ],
)
def test_other_things_that_step_get_no_mark(made: str) -> None:
    assert marks(f"thing = {made}\nthing.step()") == []


@pytest.mark.parametrize(
    "name",
    ["optimizer", "optim", "optimizerG", "self.optimizer", "optimizers[0]", "self.optimizers['d']",
     "state.optimizer_gen", "d_optim", "optims.generator", "self.optimizers.actor"],
)  # fmt: skip
def test_a_name_says_optimizer_when_nothing_else_does(name: str) -> None:
    assert marks(f"{name}.step()") == [f"{name}.step()"]


@pytest.mark.parametrize("name", ["opt", "opt_g", "g_opt", "optD", "self.opt", "opts[0]"])
def test_a_short_name_needs_a_backward_pass_or_zero_grad_beside_it(name: str) -> None:
    step = f"{name}.step()"
    assert marks(step) == []
    assert marks(f"loss.backward()\n{step}") == ["loss.backward()", step]
    assert marks(f"{name}.zero_grad()\nrun(model)\n{step}") == [step]


@pytest.mark.parametrize(
    "name",
    ["scheduler", "lr_scheduler", "self.sched", "prof", "env", "simulator", "accelerator", "engine", "model_engine",
     "pbar", "options", "optimizer_scheduler", "trainer", "adopt", "self", "optims.scheduler"],
)  # fmt: skip
def test_a_name_that_says_something_else(name: str) -> None:
    assert marks(f"{name}.step()") == []


def test_zero_grad_on_the_same_thing_makes_it_an_optimizer() -> None:
    assert marks("solver.zero_grad()\nrun(model)\nsolver.step()") == ["solver.step()"]


def test_statements_of_several_lines_and_with_comments() -> None:
    body = "(x * 2).sum().backward(\n    retain_graph=True,  # twice\n)\nx.sum().backward()  # last"
    assert marks(f"{body}\noptimizer.step()")[:2] == [")", "x.sum().backward()  # last"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if x: x.backward()", "if x: x.backward(); htcore.mark_step()"),
        ("x.backward(); y = 1", "x.backward(); htcore.mark_step(); y = 1"),
        ("for y in x: y.backward()", "for y in x: y.backward(); htcore.mark_step()"),
        ("x.backward(); # now", "x.backward(); # now\n    htcore.mark_step()"),
    ],
)
def test_lines_that_hold_more_than_the_statement(before: str, after: str) -> None:
    head = HEAD + "def f(x, device, optimizer):\n    x = x.to(device)\n    "
    tail = "\n    optimizer.step()\n    htcore.mark_step()\n"
    assert migrated(head + before + tail, mode="lazy") == head + after + tail


def test_a_file_without_a_newline_at_its_end_and_windows_newlines() -> None:
    text = (HEAD + "def f(x, device):\n    x.to(device).sum().backward()").replace("\n", "\r\n")
    text = text.replace("def f", "optimizer = None\r\ndef f")
    assert migrated(text, mode="lazy") == text + "\r\n    htcore.mark_step()"


@pytest.mark.parametrize(
    "mark",
    [
        "htcore.mark_step()",
        "if lazy:\n        htcore.mark_step()",
        "ht.core.mark_step()",
        "mark_step()",
    ],
)
def test_marks_that_are_there_are_not_doubled(mark: str) -> None:
    text = HEAD + f"def f(x, device, lazy, optimizer):\n    x.to(device).backward()\n    {mark}\n"
    text += f"    optimizer.step()\n    {mark}\n"
    assert migrated(text, mode="lazy") == text


@pytest.mark.parametrize(
    ("engine", "loss"),
    crossed(
        [
            "accelerator",
            "self.accelerator",
            "engine",
            "model_engine",
            "self.model",
            "booster",
            "runner.engine",
            "optimizer",
            "mp_trainer",
            "strategy",
        ],
        ["loss", "self.loss / n", "losses['g']", "loss=loss", "2 * loss", "loss.mean()"],
        rounds=3,
    ),
)
def test_a_loss_handed_to_an_engine_is_marked(engine: str, loss: str) -> None:
    assert marks(f"{engine}.backward({loss})") == [f"{engine}.backward({loss})"]


@pytest.mark.parametrize("engine", ["engine", "self.model", "model_engine", "trainer.engine"])
def test_the_step_of_an_engine_is_marked(engine: str) -> None:
    body = f"{engine}.backward(loss)\n{engine}.step()"
    assert marks(body) == body.splitlines()


@pytest.mark.parametrize("engine", ["model_engineD", "nets['d']", "self.net"])
def test_what_has_a_backward_and_a_step_is_an_engine_whatever_the_loss_is_called(
    engine: str,
) -> None:
    body = f"{engine}.backward(errD_real)\n{engine}.backward(errD_fake)\n{engine}.step()"
    assert marks(body) == body.splitlines()


@pytest.mark.parametrize(
    "body",
    [
        "fabric.backward(loss)\noptimizer.step()",
        "self.fabric.backward(loss)\noptimizer.step()",
        "self.manual_backward(loss)\noptimizer.step()",
        "super().backward(loss)",
    ],
)
def test_what_lightning_runs_is_not_marked(body: str) -> None:
    assert marks(body) == []


#: Ways in which a function is compiled or captured by a call.
COMPILED = (
    "train = torch.compile(train)",
    "fast = torch.compile(train, mode='default')",
    "fast = torch.compile(mode='default')(train)",
    "model.train_step = torch.jit.script(train)",
    "fast = torch.jit.trace(train, (1,))",
    "fast = torch.cuda.make_graphed_callables(train, (1,))",
    "fast = torch._dynamo.optimize('eager')(train)",
    "import functools\nfast = functools.partial(torch.compile, fullgraph=True)(train)",
    "with torch.cuda.graph(g):\n    train(model, optimizer, x)",
)
TRAIN = "def train(model, optimizer, x):\n    model(x.to(device)).sum().backward()\n    optimizer.step()\n\n"


@pytest.mark.parametrize("call", COMPILED)
def test_no_mark_in_what_a_call_compiles_or_captures(call: str) -> None:
    # Lazy mode itself takes torch.compile out, and then the marks belong there.
    assert "mark_step" not in migrated(f"{HEAD}{TRAIN}{call}\n", mode="portable")
    beside = call.replace("train", "other")
    assert migrated(f"{HEAD}{TRAIN}{beside}\n", mode="portable").count("mark_step") == 2


def test_no_mark_between_the_ends_of_a_capture() -> None:
    inside = (
        "g.capture_begin()\nloss.backward()\noptimizer.step()\ng.capture_end()\noptimizer.step()"
    )
    assert marks(inside) == ["optimizer.step()"]


#: Files that train, as a function of what moves the batch and of where the loop stands.
LOOPS = (
    "for x in loader:\n{moved}{loss}.backward()\n    optimizer.step()\n",
    "def f(loader, model, optimizer):\n  for x in loader:\n{moved}    {loss}.backward()\n    optimizer.step()\n",
    "class T:\n def f(self, x):\n{moved}    {loss}.backward()\n    self.optimizer.step()\n",
)
SIGNS = (
    "    x = x.to(torch.accelerator.current_accelerator())\n",
    "    x = x.cuda()\n",
    "    x = to_device(x)\n",
    "    x = utils.move_to_cuda(x)\n",
    "    x = x.to(args.gpu)\n",
    "    x = x.to(self.device)\n",
    "    x = x.to(rank)\n",
    "    x = move_data_to_device(x)\n",
    "    x = torch.ones(1, device=x.device)\n",
    "    x = (lambda x, device=None: convert(x, device=device))(x)\n",
)


@pytest.mark.parametrize(("sign", "loop"), crossed(SIGNS, LOOPS, rounds=3))
def test_any_sign_of_a_device_will_do_and_none_will_not(loop: str, sign: str) -> None:
    text = HEAD + loop.replace("\n{loss}", "\n    {loss}").replace(
        "{moved}{loss}", "{moved}    {loss}"
    )
    full = text.format(moved=sign, loss="model(x).sum()")
    assert migrated(full, mode="lazy").count("mark_step()") == 2
    bare = text.format(moved="", loss="model(x).sum()")
    assert migrated(bare, mode="lazy") == bare


@pytest.mark.parametrize(
    ("owner", "method", "inside"),
    [
        ("WarmupOptimizer", "step", False),
        ("NoamOpt", "step", False),
        ("LossScaler", "step", False),
        ("MixedOptim", "step_and_update_lr", False),
        ("Engine", "optimizer_step", True),
        ("Agent", "step", True),
        ("Trainer", "update", True),
    ],
)
@pytest.mark.parametrize(
    "step", ["self.inner_optimizer.step()", "self.scaler.step(self.optimizer)"]
)
def test_a_wrapper_is_marked_where_it_is_called_or_inside(
    owner: str, method: str, inside: bool, step: str
) -> None:
    text = f"{HEAD}class {owner}:\n    def {method}(self, x):\n        x.cuda()\n        {step}\n"
    found = migrated(text, mode="lazy")
    assert found.count("mark_step") == inside
    assert migrated(found, mode="lazy") == found


def test_a_method_that_is_handed_the_loss_is_marked_where_it_is_called() -> None:
    text = (
        f"{HEAD}class Precision:\n    def backward(self, loss):\n        loss.cuda().backward()\n\n"
        "    def run(self, loss, other):\n        self.backward(loss)\n        other.backward(loss)\n"
    )
    found = migrated(text, mode="lazy").splitlines()
    before = [found[i - 1].strip() for i, line in enumerate(found) if "mark_step" in line]
    assert before == ["self.backward(loss)", "other.backward(loss)"]


@pytest.mark.parametrize(
    "value",
    ["optimizer.step()", "optimizer.step(closure)", "scaler.step(optimizer)", "[o.step() for o in optimizers]",
     "loss.backward()", "engine.backward(\n    loss\n)"],
)  # fmt: skip
def test_a_step_that_is_returned_is_marked_before_it_is_given_back(value: str) -> None:
    text = f"{HEAD}def f(optimizer, optimizers, scaler, engine, loss, x):\n    x.cuda()\n    return {value}\n"
    found = migrated(text, mode="lazy")
    assert found.endswith(f"    result = {value}\n    htcore.mark_step()\n    return result\n")
    assert migrated(found, mode="lazy") == found


def project_marks(folder: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """The statements in front of the marks, file by file, of a project that is migrated as a whole."""
    for name, text in files.items():
        (folder / name).write_text(text)
    found: dict[str, list[str]] = {}
    for file in migrate([folder], Target(mode="lazy"), write=False, jobs=1).files:
        lines = (file.after or b"").decode().splitlines()
        found[str(file.path)] = [
            lines[i - 1].strip() for i, line in enumerate(lines) if "mark_step()" in line
        ]
    return found


CALLER = (
    "import torch\nfrom helpers import {name}\n\ndef train(model, loader, optimizer):\n"
    "    for x in loader:\n        loss = model(x.cuda()).sum()\n        {call}\n"
)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("optimizer_step", "optimizer_step(model, loss, optimizer)"),
        ("train_step", "done = train_step(loss, optimizer=optimizer)"),
        ("optimize", "optimize(optimizer)"),
        ("update_weights", "update_weights(optimizer, loss)"),
    ],
)
@pytest.mark.parametrize("shows_device", [False, True])
def test_a_step_in_another_file_is_marked_there_whichever_file_chooses_the_device(
    tmp_path: Path, name: str, call: str, shows_device: bool
) -> None:
    loss = "loss.cuda()" if shows_device else "loss"
    helper = f"import torch\n\ndef {name}(model, loss, optimizer):\n    {loss}.backward()\n    optimizer.step()\n"
    files = {"train.py": CALLER.format(name=name, call=call), "helpers.py": helper}
    found = project_marks(tmp_path, files)
    backward = 'loss.to("hpu").backward()' if shows_device else "loss.backward()"
    assert found == {"helpers.py": [backward, "optimizer.step()"], "train.py": []}


AGENT = "import torch\n{imports}\nclass Agent{base}:\n    def step(self, loss):\n        self.optimizer.zero_grad()\n        loss.backward()\n        self.optimizer.step()\n"
BASE = "import torch\nclass Base:\n    device = torch.device('cuda')\n"


@pytest.mark.parametrize(
    ("files", "marked"),
    [
        pytest.param({"agent.py": AGENT.format(imports="from base import Base", base="(Base)"), "base.py": BASE}, True, id="base class"),
        pytest.param({"agent.py": AGENT.format(imports="from middle import Base", base="(Base)"), "middle.py": "from base import Base\n", "base.py": BASE}, True, id="base class, handed on"),
        pytest.param({"agent.py": AGENT.format(imports="", base=""), "run.py": "import agent\nnet = agent.Agent().cuda()\n"}, True, id="who runs it"),
        pytest.param({"agent.py": AGENT.format(imports="", base=""), "run.py": "x = 1\n"}, False, id="nobody chooses one"),
        pytest.param({"agent.py": AGENT.format(imports="import shared", base=""), "shared.py": "", "run.py": "import shared\nx = shared.net.cuda()\n"}, False, id="only a helper in common"),
        pytest.param({"agent.py": AGENT.format(imports="import torch", base="") + "net = Net().to('cpu')\ndevice = get(device='cpu')\n", "run.py": "import agent\nnet.cuda()\n"}, False, id="it says CPU"),
    ],
)  # fmt: skip
def test_another_file_chooses_the_device(tmp_path: Path, files: dict[str, str], marked: bool) -> None:  # fmt: skip
    expected = ["loss.backward()", "self.optimizer.step()"] if marked else []
    assert project_marks(tmp_path, files)["agent.py"] == expected


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_a_scaler_is_marked_where_it_is_called_only_if_it_is_of_another_package(
    tmp_path: Path, own: bool, given: bool
) -> None:
    call = "loss_scaler(loss, optimizer, clip_grad=1.0)"
    module = "helpers" if own else "timm.utils"
    made = "" if given else f"from {module} import NativeScaler\nloss_scaler = NativeScaler()\n"
    text = CALLER.format(name="batch", call=call).replace("\ndef", f"{made}\ndef")
    if given:
        text = text.replace("optimizer):", "optimizer, loss_scaler):")
    scaler = (
        "import torch\n\nclass NativeScaler:\n    def __call__(self, loss, optimizer, clip_grad):\n"
        "        self.scaler.scale(loss.cuda()).backward()\n        self.scaler.step(optimizer)\n"
    )
    files = {"train.py": text, "helpers.py": scaler if own else "batch = 1\n"}
    found = project_marks(tmp_path, files)
    assert found["train.py"] == ([] if own else [call])
    assert len(found["helpers.py"]) == (2 if own else 0)


def test_what_lightning_calls_in_its_plugins_is_not_marked() -> None:
    body = "\n    def optimizer_step(self, optimizer, x):\n        x.cuda()\n        return self.scaler.step(optimizer)\n"
    plugin = f"{HEAD}from lightning.pytorch.plugins import Precision\nclass Mine(Precision):{body}"
    assert "mark_step" not in migrated(plugin, mode="lazy")
    assert "mark_step" in migrated(plugin.replace("(Precision)", ""), mode="lazy")


@pytest.mark.parametrize("owner", ["optimizer", "self.optimizer", "ul_optimizer", "opts[0]"])
@pytest.mark.parametrize("cleared", ["zero_grad()", "zero_grad(set_to_none=True)"])
def test_a_step_without_gradients_only_makes_the_optimizers_state(owner: str, cleared: str) -> None:
    assert marks(f"{owner}.{cleared}\n{owner}.step()") == []
    assert marks(f"{owner}.{cleared}\nloss.backward()\n{owner}.step()") == ["loss.backward()", f"{owner}.step()"]  # fmt: skip
    assert marks(f"{owner}.{cleared}\n{owner}.step(closure)") == [f"{owner}.step(closure)"]
    assert marks(f"{owner}.{cleared}\nother_optimizer.step()") == ["other_optimizer.step()"]


@pytest.mark.parametrize("step", ["loss.backward()\n    optimizer.step()", "loss.backward()"])
@pytest.mark.parametrize("path", ["test_a.py", "tests/cases.py", "pkg/tests/util/steps.py", "test/train.py"])  # fmt: skip
def test_tests_have_no_marks(path: str, step: str) -> None:
    text = f"{HEAD}def f(loss, optimizer, x):\n    x.cuda()\n    {step}\n"
    assert "mark_step" not in migrated(text, path, mode="lazy")
    assert "mark_step" in migrated(text, path.replace("test", "latest"), mode="lazy")


#: Backward passes that alone do not show that anything is trained.
PASSES = ("torch.autograd.backward(inputs, grads)", "e.backward()", "out.mean().backward()")
#: What shows it of the file.
TRAINED = ("def g(loss):\n    loss.backward()\n", "def g(parts):\n    for part in parts:\n        part.backward()\n", "def g(model, optimizer):\n    optimizer.zero_grad()\n")  # fmt: skip


@pytest.mark.parametrize(("one", "other"), crossed(PASSES, TRAINED, rounds=3))
def test_a_file_that_trains_in_one_place_trains_in_all(one: str, other: str) -> None:
    text = f"{HEAD}def f(out, inputs, grads, e):\n    out.cuda()\n    {one}\n"
    assert "mark_step" not in migrated(text, mode="lazy")
    found = migrated(f"{text}\n\n{other}", mode="lazy").splitlines()
    assert "htcore.mark_step()" in found[found.index(f"    {one}") + 1]
