"""Folders whose files are made up by the kernel: nobody's project, and to read some of them is to act on the machine."""

from __future__ import annotations

import os
from functools import cache

from hpushim import safe_files

REASON = "a file system of the kernel, not a project"
_TYPES = frozenset(
    [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    ]
)


def of_the_kernel(folder: str) -> bool:
    """Does a folder, given without links, lie in such a file system?"""
    best, found = -1, False
    for point, kernel in _mounts():
        inside = point in (folder, "/") or folder.startswith(f"{point}/")
        if inside and len(point) >= best:
            best, found = len(point), kernel
    return found


def of_the_kernel_below(folder: str) -> frozenset[str]:
    """The folders below one on which such a file system is mounted."""
    start = folder if folder.endswith("/") else f"{folder}/"
    return frozenset(point for point, kernel in _mounts() if kernel and point.startswith(start))


@cache
def _mounts() -> tuple[tuple[str, bool], ...]:
    """Where something is mounted and whether the kernel makes it up; empty where there is no such list."""
    try:
        data = safe_files.read("/proc/self/mountinfo", 16 << 20)
    except OSError:
        return ()
    found: list[tuple[str, bool]] = []
    for line in data.split(b"\n"):
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) > 4:
            point = fields[4].decode("ascii", "surrogateescape")
            for code in ("\\040", "\\011", "\\012", "\\134"):
                point = point.replace(code, chr(int(code[1:], 8)))
            kind = after.split(b" ", 1)[0].decode("ascii", "replace")
            found.append((os.fspath(point), kind in _TYPES))
    return tuple(found)
