"""Whose folder is it? What runs with the user's rights is loaded only from where nobody else could have put it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hpushim.errors import EmulatorError


def require_own(path: Path, what: str, remedy: str) -> None:
    """Raise EmulatorError unless ``path`` and every folder above it are out of others' reach.

    Each must belong to this user or to root, and nobody else may write to it. A folder above may be open to others if it
    has the sticky bit, as /tmp has: what is in it is then its owner's alone. Folders that do not exist yet are passed over;
    a link is looked at where it is and where it leads.
    """
    for place in _places(path):
        reason = _danger(place, above=place != path and place != _real(path))
        if reason:
            raise EmulatorError(
                f"{what} {path} is not used: {place} {reason}; expected a place that belongs to you and that nobody else "
                f"can write to; {remedy}"
            )


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _places(path: Path) -> list[Path]:
    """The path and the folders above it, as named and as they are once links are followed."""
    real = _real(path)
    return list(dict.fromkeys([path, *path.parents, real, *real.parents]))


def _danger(place: Path, above: bool) -> str:
    """Why a place cannot be relied on; empty when it can."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to the user with number {found.st_uid}"
    if stat.S_ISLNK(found.st_mode):
        return ""  # where it leads is looked at too, and a link has no rights of its own
    if above and found.st_mode & stat.S_ISVTX:
        return ""
    if found.st_mode & stat.S_IWOTH:
        return f"can be written by everybody ({stat.filemode(found.st_mode)})"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid):
        return f"can be written by its group ({stat.filemode(found.st_mode)})"
    return ""


def _is_private(group: int) -> bool:
    """Is it the group of root or of this user alone, as many systems make one for each user?"""
    import grp
    import pwd

    if group == 0:
        return True
    try:
        entry, user = grp.getgrgid(group), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return (
        entry.gr_gid == user.pw_gid
        and entry.gr_name == user.pw_name
        and set(entry.gr_mem) <= {user.pw_name}
    )
