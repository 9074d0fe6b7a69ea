"""A file that trains with another framework gets nothing of torch's."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.base.text import ALONE, Project
from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

#: Names that no list of the matrix has are other frameworks as well.
OTHERS = [
    "tensorflow",
    "jax",
    "paddle",
    "tinygrad",
    "jittor",
    "megengine",
    "chainer",
    "a_framework_of_tomorrow",
]
IMPORTS = [
    "import {0}",
    "import {0}.nn as nn",
    "from {0} import optim",
    "def f():\n    import {0}",
    "try:\n    import {0}\nexcept ImportError:\n    pass",
]
TRAINS = """
{0}

for batch in batches:
    loss = model(batch.to(device)).mean()
    loss.backward()
    optimizer.step()
"""


def marked(text: str, project: Project) -> bool:
    result = settle(text, "python", "train.py", Context(Target(), load(), project))
    found = {finding.code for finding in result.findings}
    assert bool(found & {"HPU501", "HPU502"}) == ("mark_step" in result.text)
    return "mark_step" in result.text


@pytest.mark.parametrize(("form", "package"), crossed(IMPORTS, OTHERS, rounds=3))
def test_no_step_is_marked(package: str, form: str) -> None:
    assert not marked(TRAINS.format(form.format(package)), ALONE)
    assert not marked(TRAINS.format(form.format(package)), Project(files=frozenset({"train.py"})))


@pytest.mark.parametrize(
    ("form", "package"),
    crossed(
        IMPORTS,
        ["torch", "torchvision", "pytorch_lightning", "accelerate", "transformers"],
        rounds=3,
    ),
)
def test_steps_of_torch_are_marked(package: str, form: str) -> None:
    assert marked(TRAINS.format(form.format(package)), Project(files=frozenset({"train.py"})))


@pytest.mark.parametrize(
    ("used", "expected"), [({""}, True), ({"", "JAX"}, True), ({"JAX"}, False), (set(), False)]
)
def test_the_project_says_it_for_a_file_that_imports_its_own_modules(
    used: set[str], expected: bool
) -> None:
    project = Project(files=frozenset({"train.py"}), collected=(("frameworks", frozenset(used)),))
    assert marked(TRAINS.format("from .model import model"), project) == expected
    assert marked(TRAINS.format("from data import batches"), project) == expected
