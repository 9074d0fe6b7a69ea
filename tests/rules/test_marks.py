"""What counts as an optimizer's step, and where a mark goes in awkward places."""

from __future__ import annotations

import pytest
from test_imports import migrated

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
    ["optimizer", "optim", "opt", "opt_g", "g_opt", "optD", "optimizerG", "self.optimizer", "optimizers[0]",
     "self.optimizers['d']", "state.optimizer_gen", "d_optim"],
)  # fmt: skip
def test_a_name_says_optimizer_when_nothing_else_does(name: str) -> None:
    assert marks(f"{name}.step()") == [f"{name}.step()"]


@pytest.mark.parametrize(
    "name",
    ["scheduler", "lr_scheduler", "self.sched", "prof", "env", "simulator", "accelerator", "engine", "model_engine",
     "pbar", "options", "optimizer_scheduler", "trainer", "adopt", "self"],
)  # fmt: skip
def test_a_name_that_says_something_else(name: str) -> None:
    assert marks(f"{name}.step()") == []


def test_zero_grad_on_the_same_thing_makes_it_an_optimizer() -> None:
    assert marks("solver.zero_grad()\nsolver.step()") == ["solver.step()"]


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
