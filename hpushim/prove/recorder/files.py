"""The files that a script opens: what it reads of its project is noted; its user's tree is never written.

A large file of the project is a link in the copy. Before it is opened for writing, the link gives way to a copy.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

from hpushim.prove.recorder import recording
from hpushim.shim.run import own as own_files

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_NOTED = (".py", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini")
_HERE = str(Path(__file__).resolve().parents[2])
_busy = threading.local()  # what we open ourselves is not looked at
_reported: set[str] = set()
_orders: recording.Orders | None = None


def watch(orders: recording.Orders) -> None:
    """Watches what this process opens, renames and removes, until it ends."""
    global _orders
    _orders = orders
    sys.addaudithook(_hook)


def alone(why: str) -> None:
    """Notes that this program shares something with others of its kind: a second run beside it would be in its way."""
    if _orders is not None and why not in _reported:
        _reported.add(why)
        recording.note(_orders.at, "alone", why=why)


def own(path: Any) -> None:
    """Makes a file that is about to be written the copy's own; refuses to write the user's. Raises PermissionError."""
    if _orders is None or not isinstance(path, (str, bytes, os.PathLike)):
        return
    name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
    real = os.path.realpath(name)
    if not _within(real, _orders.tree) or _within(real, _orders.copy):
        return
    if not _within(name, _orders.copy):
        raise PermissionError(
            errno.EACCES, "hpushim prove writes nothing in the project itself", name
        )
    if os.path.islink(name):  # noqa: PTH114
        os.unlink(name)  # noqa: PTH108
        if os.path.isfile(real):  # noqa: PTH113
            shutil.copy2(real, name)
        return
    # Inside a folder that is a link: the folder becomes a real one, with links to what it holds.
    above = os.path.dirname(name)  # noqa: PTH120
    while not os.path.islink(above) and len(above) > len(_orders.copy):  # noqa: PTH114
        above = os.path.dirname(above)  # noqa: PTH120
    target = os.path.realpath(above)
    os.unlink(above)  # noqa: PTH108
    os.mkdir(above)  # noqa: PTH102
    for entry in os.listdir(target):  # noqa: PTH208
        os.symlink(os.path.join(target, entry), os.path.join(above, entry))  # noqa: PTH118, PTH211
    own(name)


def _is_elsewhere(real: str) -> bool:
    """Whether a file is neither the copy's nor a record nor a device."""
    assert _orders is not None
    own_places = (_orders.copy, str(_orders.at), "/dev", "/proc")
    # A temporary file is opened by its folder's name first, then by a name that nobody else has.
    return not os.path.isdir(real) and not any(_within(real, folder) for folder in own_places)  # noqa: PTH112


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if getattr(_busy, "now", False) or event not in (
        "open",
        "os.rename",
        "os.remove",
        "os.truncate",
        "os.mkdir",
        "socket.bind",
    ):
        return
    _busy.now = True
    try:
        if event == "socket.bind":
            alone("listens on a socket")
        elif event == "open":
            _opened(args[0], args[1], args[2])
        elif event == "os.rename":
            own(args[1])
        elif event != "os.remove" or not os.path.islink(os.fsdecode(args[0])):  # noqa: PTH114
            own(args[0])
    finally:
        _busy.now = False


def _opened(path: Any, mode: Any, flags: Any) -> None:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    if (mode and any(letter in mode for letter in "wax+")) or (flags or 0) & _WRITING:
        own(path)
        if not (flags or 0) & os.O_EXCL and _is_elsewhere(os.path.realpath(os.fsdecode(path))):
            alone("writes outside of its project")
        return
    name = os.fsdecode(path)
    if name.endswith(_NOTED) and name not in _reported and _orders is not None:
        _reported.add(name)
        real = os.path.realpath(name)
        if _within(real, _orders.root):
            recording.note(_orders.at, "read", file=os.path.relpath(real, _orders.root))
        elif (
            name.endswith(".py")
            and _within(real, _orders.tree)
            and not _within(real, _HERE)
            and own_files.is_own_folder(Path(real).parent)
        ):
            recording.note(_orders.at, "beside", file=os.path.relpath(real, _orders.tree))
