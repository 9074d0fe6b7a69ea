"""Which file of a project the words of a command name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence


def by_last(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files by the last part of their paths."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


def resolved(home: str, name: str, ends: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The file that a command names: from its own folder or one around it, else the one whose path ends so."""
    forms = [name] if name.endswith((".py", ".sh")) else [f"{name}.py", f"{name}/__main__.py"]
    for form in forms:
        same = ends.get(form.rpartition("/")[2], ())
        folder = home
        while same and folder:
            folder = folder.rpartition("/")[0]
            if (whole := posixpath.normpath(posixpath.join(folder, form))) in same:
                return [whole]
        end = "/" + re.sub(r"^(?:\.{1,2}/)+", "", form)
        within = "" if end.count("/") > 1 else home.rpartition("/")[0]  # behind a `cd`
        ending = [path for path in same if f"/{path}".endswith(end) and path.startswith(within)]
        if len(ending) == 1:
            return ending
    return ()
