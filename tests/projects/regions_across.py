"""The same as ``regions.py`` from file to file: CUDA behind a flag that another file made of a check.

A flag is known by its name: one that is imported, what an imported function returns, an attribute that is read elsewhere::

    python tests/projects/regions_across.py BEFORE AFTER    # two folders
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from answers import Flags, Source, Truth
from regions import Site, read, walk

#: Attributes that say nothing of where they come from.
_COMMON = frozenset(["cuda", "device", "type", "is_cuda", "value", "name", "data", "step", "get"])
Shared = dict[str, Flags]


def across(before: Path, after: Path) -> list[Site]:
    """The sites that the checks of other files control."""
    files: dict[str, tuple[Source, set[ast.AST]]] = {}
    for old in sorted(before.rglob("*.py")):
        name = str(old.relative_to(before))
        new = after / name
        try:
            was = old.read_text(encoding="utf-8-sig")
            now = new.read_text(encoding="utf-8-sig") if new.is_file() else was
            if "cuda" in now or "hpu" in now:
                files[name] = read(now, was)
        except (SyntaxError, UnicodeDecodeError, RecursionError):
            continue
    ours: Shared = {}
    theirs: Shared = {}
    for name, (source, turned) in files.items():
        if turned:
            ours[name] = Truth(source, turned).shared()
        theirs[name] = Truth(source, set(source.checks("cuda"))).shared()
    found: list[Site] = []
    for name, (source, turned) in files.items():
        told = _known(source, ours, name)
        if not told:
            continue
        shield = Truth(source, set(source.checks("cuda")), _known(source, theirs, name))
        alone = {s.line for s in walk(source, Truth(source, turned), shield, name)}
        sites = walk(source, Truth(source, turned, told), shield, name)
        found += [site for site in sites if site.line not in alone]
    return found


def _known(source: Source, shared: Shared, path: str) -> Flags:
    """What a file knows of the flags of others: by import, and the attributes that it reads."""
    found: Flags = {}
    for other, flags in shared.items():
        stem = Path(other).stem if Path(other).stem != "__init__" else Path(other).parent.name
        local: dict[str, str] = {}
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] == stem:
                local |= {alias.name: alias.asname or alias.name for alias in node.names}
        for key, value in flags.items() if other != path else ():
            if key[0] == "attribute" and key[1] not in _COMMON:
                found[key] = value
            elif key[-1] in local:
                found[(*key[:-1], local[str(key[-1])])] = value
            elif key[0] == "returned" and key[1] in local:
                found[("returned", local[str(key[1])], *key[2:])] = value
    return found


if __name__ == "__main__":
    for site in across(Path(sys.argv[1]), Path(sys.argv[2])):
        sys.stdout.write(f"{site}\n")
