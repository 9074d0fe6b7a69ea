"""Which lines of interest ran: by ``sys.monitoring`` where Python has it (3.12), else by a trace of the project's own files.

A line is reported once; a function without a line left to report is traced no more.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from hpushim.prove.recorder import recording

_TOOL = 4  # of sys.monitoring: none of the well-known ones


class _Lines:
    def __init__(self, orders: recording.Orders) -> None:
        self._orders = orders
        self._left = {
            os.path.join(orders.root, name): set(lines)  # noqa: PTH118
            for name, lines in orders.lines.items()
            if lines
        }
        #: As code objects name their files.
        self._files: dict[str, set[int] | None] = {}

    def of(self, code: CodeType) -> set[int] | None:
        """The lines of a code object's file that have not been seen; None for a file without any."""
        name = code.co_filename
        try:
            return self._files[name]
        except KeyError:
            found = self._left.get(self._orders.file_of(name))
            self._files[name] = found
            return found

    def seen(self, code: CodeType, line: int) -> None:
        left = self._files.get(code.co_filename)
        if left and line in left:
            left.discard(line)
            file = os.path.relpath(self._orders.file_of(code.co_filename), self._orders.root)
            recording.note(self._orders.at, "line", file=file, line=line)

    def wants(self, code: CodeType) -> bool:
        """Whether a line of interest may still run in this very code object."""
        left = self.of(code)
        if not left:
            return False
        return any(line in left for _, _, line in code.co_lines())

    # -- sys.settrace, to Python 3.11

    def call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not self._files.get(code.co_filename, True) or not self.wants(code):
            return None
        self.seen(code, frame.f_lineno)
        return self.line

    def line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.seen(frame.f_code, frame.f_lineno)
        return self.line

    # -- sys.monitoring

    def start(self, code: CodeType, offset: int) -> Any:
        monitoring: Any = vars(sys)["monitoring"]
        if self.wants(code):
            monitoring.set_local_events(_TOOL, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def monitored(self, code: CodeType, line: int) -> Any:
        self.seen(code, line)
        return vars(sys)["monitoring"].DISABLE


def watch(orders: recording.Orders) -> None:
    """Reports the lines of interest that this process runs, in all its threads."""
    if not any(orders.lines.values()):
        return
    lines = _Lines(orders)
    monitoring: Any = vars(sys).get("monitoring")
    if monitoring is None:
        threading.settrace(lines.call)
        sys.settrace(lines.call)
        return
    try:
        monitoring.use_tool_id(_TOOL, "hpushim prove")
    except ValueError:
        return  # another tool has it; nothing is reported, and nothing is claimed
    monitoring.register_callback(_TOOL, monitoring.events.PY_START, lines.start)
    monitoring.register_callback(_TOOL, monitoring.events.LINE, lines.monitored)
    monitoring.set_events(_TOOL, monitoring.events.PY_START)
