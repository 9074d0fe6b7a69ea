"""The record of one process: JSON lines, each on disk as soon as it is known, so that a killed run leaves what it did."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

VARIABLE = "HPUSHIM_PROVE"
"""The file with the orders of the run (see :class:`Orders`), JSON."""

_descriptor: int | None = None
_owner = 0


class Orders:
    """What a run is to record. Read from the file that :data:`VARIABLE` names.

    ``at``: folder for the records; ``root``: the copy of the project; ``copy``: all that was made for the run, ``root`` in it;
    ``tree``: the user's own folder, which must stay as it is; ``cwd``: where the run begins; ``seed``; ``steps``: optimizer steps after which the script ends, 0 for all; ``window``: first and last
    step whose operators are noted; ``values``: whether each operator's result is noted too; ``lines``: file (relative to
    ``root``) to the lines of interest; ``float32``: whether autocast is off; ``deterministic``: whether torch's kernels have to give the same bits each time.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.at = Path(data["at"])
        self.root = str(data["root"])
        self.copy = str(data["copy"])
        self.tree = str(data["tree"])
        self.cwd = str(data["cwd"])
        self.seed = int(data["seed"])
        self.steps = int(data["steps"])
        first, last = data["window"]
        self.window = (int(first), int(last))
        self.values = bool(data["values"])
        self.lines: dict[str, list[int]] = data["lines"]
        self.float32 = bool(data["float32"])
        self.deterministic = bool(data.get("deterministic"))

    def file_of(self, name: str) -> str:
        """The real path of a file as a code object names it: a relative one from where the run began, whatever the folder is by now."""
        return os.path.realpath(os.path.join(self.cwd, name))  # noqa: PTH118


def orders() -> Orders:
    """The orders of this run. Raises OSError or ValueError where they cannot be read."""
    return Orders(json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8")))


def note(at: Path, event: str, **what: Any) -> None:
    """Appends one event to this process's record."""
    global _descriptor, _owner
    if _descriptor is None or _owner != os.getpid():
        # A forked child writes a record of its own.
        _owner = os.getpid()
        rank = os.environ.get("RANK", "")
        name = f"{rank if rank.isdigit() else '-'}.{_owner}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        _descriptor = os.open(at / name, flags, 0o600)
    text = json.dumps({"event": event, **what}, default=str) + "\n"
    os.write(_descriptor, text.encode("utf-8", "backslashreplace"))
