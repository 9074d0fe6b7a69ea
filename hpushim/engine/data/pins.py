"""Which versions of other packages a project requests, as far as its files say.

Read once for the whole project: requirements files, ``pyproject.toml``, ``setup.py``, ``setup.cfg`` and conda environments.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from hpushim.patterns import lazily

#: Files beside requirements that say what a project needs.
_OTHERS = lazily(r"^(pyproject\.toml|setup\.(py|cfg)|(environment|conda|env)[\w.-]*\.ya?ml)$")
_NAME = r"(?P<name>[A-Za-z][\w.-]*)(?:\[[\w, -]*\])?[ \t]*"
_CLAUSE = r"(?:===|[~=!<>]=|[<>=])[ \t]*[\w.*+!-]+"
_SPECIFIER = rf"(?P<specifier>{_CLAUSE}(?:[ \t]*,[ \t]*{_CLAUSE})*)"
_ON_A_LINE = lazily(rf"^[ \t]*(?:-[ \t]+)?[\"']?{_NAME}{_SPECIFIER}", re.MULTILINE)
_IN_QUOTES = lazily(rf"[\"']{_NAME}{_SPECIFIER}")
#: A requirement, with or without a version.
_UNPINNED = lazily(r"^[ \t]*([A-Za-z][\w.-]*)(?=[ \t]*(?:[\[;#=<>!~@\r]|$))", re.MULTILINE)
#: What a conda environment lists and no import names.
_INTERPRETER = {"python", "pip"}
_LARGEST = 200_000


def says_versions(path: PurePath, kind: str) -> bool:
    """May the file say which versions the project needs?"""
    return kind == "requirements" or _OTHERS.match(path.name) is not None


def pins(data: bytes, kind: str) -> dict[str, str]:
    """The packages that one file requests in some versions: name (lower case, with ``-``) and specifier."""
    if len(data) > _LARGEST:
        return {}
    pattern = _IN_QUOTES if kind in ("python", "toml") else _ON_A_LINE
    return {
        re.sub(r"[-_.]+", "-", found["name"]).lower(): _plain(found["specifier"])
        for found in pattern.finditer(data.decode("utf-8", "replace"))
        # One ``=`` is Conda's; elsewhere it gives a setting its value.
        if kind == "yaml" or not re.match(r"=(?!=)", found["specifier"])
    }


def names(data: bytes, kind: str) -> set[str]:
    """The packages that a requirements file requests, in whatever version; of other files those with a version."""
    found = set(pins(data, kind)) - _INTERPRETER
    if kind == "requirements" and len(data) <= _LARGEST:
        text = data.decode("utf-8", "replace")
        found |= {re.sub(r"[-_.]+", "-", name).lower() for name in _UNPINNED.findall(text)}
    return found


def _plain(specifier: str) -> str:
    """Conda's ``=1.4`` and ``=1.4.2=build`` in the words of pip."""
    if not specifier.startswith("=") or specifier.startswith("=="):
        return specifier
    version = specifier[1:].partition("=")[0].strip()
    return f"=={version.removesuffix('*').removesuffix('.')}.*"
