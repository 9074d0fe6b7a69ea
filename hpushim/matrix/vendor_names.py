"""The public names of the vendor's package, ``habana_frameworks``, in the release whose source is public.

A name that is here existed in release 1.19; what becomes of it on Gaudi is reported by rows of the matrix only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

#: The release that the list was taken from.
RELEASE = "1.19"
_FILE = Path(__file__).with_name("vendor_names.txt")
_SHORT = "habana_frameworks.torch"  # which the file writes as ~


def known(name: str) -> bool:
    """Does the vendor's package have ``name`` (a module, or what is in one)? ``torch.hpu.x`` counts as the package's."""
    return _known(name, 0)


def names() -> frozenset[str]:
    """Every name of the list, fully qualified."""
    return _listed()[0]


def _known(name: str, depth: int) -> bool:
    listed, origins, modules = _listed()
    if name == "torch.hpu" or name.startswith("torch.hpu."):
        name = f"habana_frameworks.{name}"
    if name in listed or name in modules:
        return True
    parts = name.split(".")
    for end in range(len(parts), 2, -1):
        # A name taken over from elsewhere: what is below it is listed there.
        part = ".".join(parts[:end])
        origin = origins.get(part)
        if origin and depth < 4 and origin != part:
            return _known(".".join([origin, *parts[end:]]), depth + 1)
    return False


@cache
def _listed() -> tuple[frozenset[str], dict[str, str], frozenset[str]]:
    """The names, the names taken over with where they come from, and the modules above them all."""
    found, origins, module = set(), {}, ""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    for word in " ".join(line for line in lines if not line.startswith("#")).split():
        word = word.replace("~", _SHORT)
        if word.endswith(":"):
            module = word[:-1]
            found.add(module)
            continue
        name, _, origin = word.partition("=")
        found.add(f"{module}.{name}")
        if origin:
            origins[f"{module}.{name}"] = f"{origin}.{name}"
    above = {
        ".".join(parts[:end])
        for parts in (name.split(".") for name in found)
        for end in range(1, len(parts))
    }
    return frozenset(found), origins, frozenset(above)
