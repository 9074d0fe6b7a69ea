"""Training that migrate has marked, run in lazy mode: marks and graphs are counted, one for each backward pass and update."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from typing import Any

from hpushim.engine.context import Context
from hpushim.engine.one_file import settle
from hpushim.matrix import load
from hpushim.model import Target

HEAD = """
import torch

STEPS = 4
torch.manual_seed(1)
model = torch.nn.Linear(4, 2).cuda()
other = torch.nn.Linear(4, 2).cuda()
batches = [torch.randn(3, 4) for _ in range(STEPS)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
"""

#: Each with the marks that its four steps are to make.
SCRIPTS = {
    "top level": (
        """
        for x in batches:
            optimizer.zero_grad()
            model(x.cuda()).pow(2).mean().backward()
            optimizer.step()
        """,
        8,
    ),
    "accumulation": (
        """
        for i, x in enumerate(batches):
            loss = model(x.cuda()).pow(2).mean() / 2
            loss.backward()
            if (i + 1) % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
        6,
    ),
    "two optimizers": (
        """
        for x in batches:
            for net, opt in ((model, optimizer), (other, second)):
                opt.zero_grad()
                net(x.cuda()).pow(2).mean().backward()
                opt.step()
        """,
        16,
    ),
    "a comprehension": (
        """
        optimizers = [optimizer, second]
        for x in batches:
            (model(x.cuda()) - other(x.cuda())).pow(2).mean().backward()
            [o.step() for o in optimizers]
        """,
        8,
    ),
    "a closure": (
        """
        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        for batch in batches:
            x = batch.cuda()
            optimizer.step(closure)
        """,
        8,
    ),
    "wrappers in layers": (
        """
        class Precision:
            def backward(self, loss):
                self.scaled(loss)

            def scaled(self, loss):
                (loss * 2).backward()

        class SlowOptimizer:
            def __init__(self, inner):
                self.inner = inner

            def zero_grad(self):
                self.inner.zero_grad()

            def step(self):
                self.inner.step()

        class Loss(Precision):
            def backward(self, loss):
                loss.backward()

        precision, slow = Loss(), SlowOptimizer(SlowOptimizer(optimizer))
        for x in batches:
            slow.zero_grad()
            loss = model(x.cuda()).pow(2).mean()
            precision.backward(loss)
            slow.step()
        """,
        8,
    ),
    "an engine of its own": (
        """
        class Engine:
            def backward(self, loss):
                loss.backward()

            def update(self):
                return optimizer.step()

        engine = Engine()
        for x in batches:
            engine.backward(loss=model(x.cuda()).pow(2).mean())
            engine.update()
        """,
        8,
    ),
    "a scaler that goes": (
        """
        scaler = torch.cuda.amp.GradScaler()
        for x in batches:
            with torch.cuda.amp.autocast():
                loss = model(x.cuda()).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        8,
    ),
    "autograd's own call": (
        """
        def train(x):
            loss = model(x).pow(2).mean()
            torch.autograd.backward(loss)
            return optimizer.step()

        for x in batches:
            train(x.cuda())
        """,
        8,
    ),
}

PROGRAM = """
    import json, sys
    import hpushim.emulator
    hpushim.emulator.enable()
    import habana_frameworks.torch.core as htcore
    from hpushim.emulator import ledger
    found = {}
    for name, text in json.loads(sys.stdin.read()).items():
        htcore.mark_step()
        ledger.reset()
        space = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), space)
        books = ledger.snapshot()
        found[name] = [books["mark_steps"], books["graph_runs"]]
    print(json.dumps(found))
"""


def _migrated(body: str) -> str:
    text = HEAD + textwrap.dedent(body)
    return settle(text, "python", "train.py", Context(Target(mode="lazy"), load())).text


def test_marks_of_a_step_in_lazy_mode(run: Callable[..., Any]) -> None:
    texts = {name: _migrated(body) for name, (body, _) in SCRIPTS.items()}
    done = run(PROGRAM.replace("sys.stdin.read()", repr(json.dumps(texts))), PT_HPU_LAZY_MODE="1")
    found = json.loads(done.stdout.splitlines()[-1])
    wanted = {name: marks for name, (_, marks) in SCRIPTS.items()}
    assert {name: marks for name, (marks, _) in found.items()} == wanted
    # Nothing is left over for the next script, and no mark is without work.
    assert {name: graphs for name, (_, graphs) in found.items()} == wanted
