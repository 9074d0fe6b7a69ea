"""Packages that a project requires: what the matrix says of each by its name."""

from __future__ import annotations

import re
from contextlib import suppress

from hpushim.engine.base.text import Text

from .project_facts import MAKERS, MAKERS_NAMED
from .verdict import inside
from .versions import assess

#: In the code of a project that has something to rewrite.
ABOUT_CUDA = "cuda"
TORCH = ("torch", "torchvision", "torchaudio")
#: What markers are about on a machine with Gaudi: the platform, and the versions of Python in the matrix's row `Python version`.
_GAUDI = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
}
_PYTHONS = ("3.10", "3.11", "3.12")
_CONDA = re.compile(r"pytorch\b|\w+\s*=[^=]")
_FOR_CUDA = re.compile(r"(?:^|-)(?:cuda|cu\d{2,3}|cuda\d+x?)(?:$|-)")


def writes_cuda(text: Text) -> bool:
    """Is CUDA in the code of the project, as far as anybody has looked, so that there is something to rewrite?"""
    mentions = text.project.mentions
    return mentions is None or ABOUT_CUDA in mentions


def replaces_torch(written: str) -> str:
    """The message on a requirement for some versions of torch; a ``=`` alone, or the name `pytorch`, is conda's."""
    remove = (
        "it: conda would install its own torch, with or without a version"
        if _CONDA.match(written)
        else "the version"
    )
    return f"installing `{written}` may replace Gaudi's torch, which must fit the Gaudi release; remove {remove}"


def elsewhere(requirement: str) -> bool:
    """Is it for other platforms or versions of Python than those of Gaudi: ``torch<2.3; sys_platform == "darwin"``?"""
    from packaging.markers import (
        InvalidMarker,
        Marker,
        UndefinedComparison,
        UndefinedEnvironmentName,
    )

    condition = requirement.partition(";")[2].strip()
    if not condition or "extra" in condition:
        return False
    with suppress(InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return not any(
            Marker(condition).evaluate({**_GAUDI, "python_version": each}) for each in _PYTHONS
        )
    return False


def said(text: Text, name: str, versions: str = "") -> tuple[str, str | None, bool] | None:
    """The message on a package, its row, and whether the package is of no use at all on Gaudi; None where there is nothing to report.

    ``versions``: those that the requirement at hand admits, whatever other files say.
    """
    covered = text.matrix.covering(name) if name.startswith("nvidia-") else None
    if covered is not None and covered.status == "noop":
        return "it is a CUDA library; remove it", covered.name, True
    plain = _FOR_CUDA.sub("", name)  # cupy-cuda12x
    known = text.matrix.row(name.replace("-", "_"), "package") or text.matrix.row(plain, "package") or covered  # fmt: skip
    named = _FOR_CUDA.search(name)
    if (known is None and named) or (known and known is covered and known.status == "unknown"):
        of = "CUDA" if named else "NVIDIA"
        return f"its name contains {of}, and hpushim does not know it; check whether it runs on the CPU", None, False  # fmt: skip
    if (
        known is None
        or not known.rule.startswith(("HPU7", "HPU609", "HPU620"))
        or _unmade(text, known.name)
    ):
        return None
    verdict = assess(text, known, versions)
    if verdict.status not in ("unsupported", "changed", "partial"):
        return None
    useless = verdict.status == "unsupported"
    if verdict.note in {limit.text for limit in known.limits if limit.package}:
        useless = False  # another version is needed, as the note says
    removed = (
        f"{inside(verdict.note).partition('. ')[0]}; take it out of the requirements for Gaudi"
    )
    return removed if useless else inside(verdict.note), known.name, useless


def _unmade(text: Text, package: str) -> bool:
    """Do only some classes of the package pick a device, and no file of the project names one of them?"""
    looked = MAKERS_NAMED.name in dict(text.project.collected)
    named = text.project.names(MAKERS_NAMED.name)
    made = {f"{package}.{name}" for name in MAKERS.get(package, ())}
    return looked and package in MAKERS and not named & made
