"""What the processes of a run recorded, read back: one :class:`Process` for each that trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec


class Process(msgspec.Struct):
    """One process: its rank, its steps in order, the operators of some of them."""

    rank: int
    steps: list[dict[str, Any]] = msgspec.field(default_factory=list)
    operators: dict[int, dict[str, Any]] = msgspec.field(default_factory=dict)
    saved: list[dict[str, Any]] = msgspec.field(default_factory=list)
    seeds: list[dict[str, Any]] = msgspec.field(default_factory=list)  # given to torch.manual_seed
    stopped: bool = False
    by_hand: bool = False  # without an optimizer: a step is a backward pass


class Refused(msgspec.Struct, frozen=True):
    """What ran on the emulated device, and a Gaudi refuses or computes in a narrower dtype. ``file`` is empty where no line of the project requested it."""

    code: str
    what: str
    file: str = ""
    line: int = 0


class Record(msgspec.Struct):
    """All processes of a run."""

    processes: list[Process] = msgspec.field(default_factory=list)  # that trained, by rank
    errors: list[dict[str, Any]] = msgspec.field(default_factory=list)
    lines: set[tuple[str, int]] = msgspec.field(default_factory=set)
    files: set[str] = msgspec.field(default_factory=set)
    beside: set[str] = msgspec.field(default_factory=set)  # files that were not migrated
    saved: list[dict[str, Any]] = msgspec.field(default_factory=list)
    alone: set[str] = msgspec.field(default_factory=set)  # why no second run may go on beside it
    scalars: list[tuple[str, float, int]] = msgspec.field(default_factory=list)  # handed to a logging library: name, value, line  # fmt: skip
    refused: list[Refused] = msgspec.field(default_factory=list)
    narrowed: list[Refused] = msgspec.field(default_factory=list)

    @property
    def steps(self) -> int:
        """Optimizer steps of the first process."""
        return len(self.processes[0].steps) if self.processes else 0

    def devices(self) -> dict[str, int]:
        """Operators noted, by the device of their results."""
        found: dict[str, int] = {}
        for process in self.processes:
            for noted in process.operators.values():
                for name, results, *_ in noted["operators"]:
                    if results and compute(name):
                        found[results[0][1]] = found.get(results[0][1], 0) + 1
        return found


_COMPUTE = ("mm", "bmm", "addmm", "baddbmm", "convolution", "embedding", "native_layer_norm", "linear", "matmul", "lstm", "gru", "attention")  # fmt: skip


def compute(name: str) -> bool:
    """Whether an operator is one in which training does its work: products, convolutions, embeddings, norms."""
    base = name.split(".")[1] if "." in name else name
    return any(word in base for word in _COMPUTE)


def read(at: Path) -> Record:
    """The record in a folder; of a process that was killed, what it had written by then."""
    record = Record()
    found: list[tuple[int, str, Process]] = []
    for path in sorted(at.glob("*.jsonl")):
        rank = path.name.partition(".")[0]
        process = Process(int(rank) if rank.isdigit() else -1)
        passes: list[dict[str, Any]] = []
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(text)
            except ValueError:
                continue  # cut short
            if event["event"] == "pass":
                passes.append(event["loss"])
                continue
            _enter(event, process, record)
        if passes and not process.steps:
            process.steps = [_pass(number, loss) for number, loss in enumerate(passes, 1)]
            process.by_hand = True
        if process.steps:
            found.append((process.rank, path.name, process))
    # Other processes fail for want of the first one that did.
    record.errors.sort(key=lambda error: float(error.get("when", 0.0)))
    record.processes = [process for *_, process in sorted(found, key=lambda one: one[:2])]
    return record


def _pass(number: int, loss: dict[str, Any]) -> dict[str, Any]:
    """A backward pass as a step of training without an optimizer: nothing but its loss is known."""
    nothing = {"norm": "0.0", "bits": 0, "count": 0, "kinds": {}}
    return {
        "step": number,
        "optimizer": 0,
        "rank": None,
        "rates": [],
        "losses": [loss],
        "gradients": nothing,
        "parameters": nothing,
        "marks": [0, 0, 0],
        "place": loss["place"],
    }


def _enter(event: dict[str, Any], process: Process, record: Record) -> None:
    kind = event.pop("event")
    if kind == "step":
        process.steps.append(event)
        if event["rank"] is not None:
            process.rank = event["rank"]
    elif kind == "operators":
        process.operators[event["step"]] = event
    elif kind == "saved":
        record.saved.append(event)
        process.saved.append(event)
    elif kind == "seed":
        process.seeds.append(event)
    elif kind == "stopped":
        process.stopped = True
    elif kind == "error":
        record.errors.append(event)
    elif kind == "line":
        record.lines.add((event["file"], event["line"]))
    elif kind == "scalar":
        record.scalars.append((event["name"], float(event["value"]), event["line"]))
    elif kind == "refused":
        record.refused.append(msgspec.convert(event, Refused))
    elif kind == "narrowed":
        record.narrowed.append(msgspec.convert(event, Refused))
    elif kind == "beside":
        record.beside.add(event["file"])
    elif kind == "alone":
        record.alone.add(event["why"])
    elif kind == "read":
        record.files.add(event["file"])
