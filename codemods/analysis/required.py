"""Packages that a project requires: what the matrix says of each by its name."""

from __future__ import annotations

import re
from contextlib import suppress

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from hpushim.engine.base.text import Text
from hpushim.engine.data.document import Document
from hpushim.engine.data.pins import pins

from .project_facts import MAKERS, MAKERS_NAMED
from .verdict import ask, inside
from .versions import judge

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
_FOR_CUDA = re.compile(r"(?:^|-)(?:cuda|cu\d{2,3}|cuda\d+x?)(?:$|-)")


#: The first release with ``torch.accelerator``, and releases before it.
FIRST = "2.6"
_OLDER = ("2.5.1", "2.4.1", "2.1.2", "2.0.1", "1.13.1", "1.8.1")
#: A version of torch that may simply be a later one: none, or a lower bound.
_LOWER = re.compile(r"\s*(?:>=?\s*[\w.]+)?\s*")


#: Packages that are made for one release of torch, or that it needs, and their first release for that one; "" where there is none:
#: torch's channel of conda ended before it.
_PARTNERS = {"torchvision": "0.21", "torchaudio": "2.6", "xformers": "0.0.29", "python": "3.9", "pytorch-cuda": "", "cudatoolkit": ""}  # fmt: skip
#: Beyond every release.
_END = "1000"

#: Images with torch, and the version in their tag; NVIDIA's are numbered by year and month, and have torch 2.6 since this one.
_IMAGE = re.compile(
    r"(?:docker\.io/)?(?:nvcr\.io/nvidia/pytorch:(?P<month>\d\d\.\d\d)|pytorch/pytorch:(?P<version>\d+\.\d+))"
)
_MONTH = "25.01"


def is_old_image(name: str) -> bool:
    """Does an image have a torch without ``torch.accelerator``?"""
    found = _IMAGE.match(name)
    if found is None:
        return False
    if found["month"]:
        return found["month"] < _MONTH
    return lacks_accelerator(f"=={found['version']}.0") is not None


def lacks_accelerator(allowed: str) -> tuple[str, str] | None:
    """Of the versions of torch that are allowed: what to say where some lack ``torch.accelerator``, and the versions to write; "" for a person."""
    try:
        versions = SpecifierSet(re.sub(r"^=(?!=)", "==", allowed.partition(";")[0].strip()))
    except InvalidSpecifier:
        return None
    exact = re.fullmatch(r"==(\d+\.\d+\.\d+)", allowed)
    older = (*_OLDER, exact[1]) if exact and Version(exact[1]) < Version(FIRST) else _OLDER
    old = next((version for version in older if version in versions), None)
    if old is None:
        return None
    shown = f"`torch{allowed}`" if allowed else "`torch` without a version"
    message = (
        f"{shown} allows torch {old}, which lacks `torch.accelerator`; require `torch>={FIRST}`, "
        "whose `torch.load` reads weights only by default"
    )
    return message, f">={FIRST}" if _LOWER.fullmatch(allowed) else ""


def held_back(document: Document) -> list[str]:
    """What the same file pins to releases that go with an older torch alone."""
    found: dict[str, None] = {}
    for name, versions in pins(document.data, document.kind).items():
        first = _PARTNERS.get(name)
        if first == "" or (first is not None and not _admits(versions, first)):
            found[f"{name}{versions}"] = None
    return list(found)


def admits_old_python(versions: str) -> bool:
    """Is a Python among the versions for which the first torch with ``torch.accelerator`` has no release?"""
    with suppress(InvalidSpecifier):
        return "3.8" in SpecifierSet(versions)
    return False


def _admits(versions: str, first: str) -> bool:
    """Is a release from ``first`` on among the versions?"""
    try:
        allowed = SpecifierSet(versions)
    except InvalidSpecifier:
        return True
    named = [each.version.removesuffix(".*") for each in allowed if each.operator != "==="]
    with suppress(InvalidVersion):
        newer = [name for name in named if Version(name) >= Version(first)]
        return any(each in allowed for each in (first, f"{first}.1", *newer, _END))
    return True


def writes_cuda(text: Text) -> bool:
    """Is CUDA in the code of the project, as far as anybody has looked, so that there is something to rewrite?"""
    mentions = text.project.mentions
    return mentions is None or ABOUT_CUDA in mentions


def replaces_torch(written: str) -> str:
    """The message on a requirement for some versions of torch."""
    return f"installing `{written}` may replace Gaudi's torch, which must fit the Gaudi release; remove the version"


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
    if name.startswith("nvidia-"):
        return "it works on NVIDIA GPUs only; remove it", ask(text, name).row, True
    plain = _FOR_CUDA.sub("", name)  # cupy-cuda12x
    known = text.matrix.row(name.replace("-", "_"), "package") or text.matrix.row(plain, "package")
    if known is None and _FOR_CUDA.search(name):
        return (
            "its name contains CUDA, and hpushim does not know it; check whether it runs on the "
            "CPU",
            None,
            False,
        )
    if known is None or not known.rule.startswith(("HPU7", "HPU620")) or _unmade(text, known.name):
        return None
    verdict = judge(text, known, versions)
    if verdict.status not in ("unsupported", "changed", "partial"):
        return None
    return inside(verdict.note), known.name, verdict.status == "unsupported"


def _unmade(text: Text, package: str) -> bool:
    """Do only some classes of the package pick a device, and no file of the project names one of them?"""
    looked = MAKERS_NAMED.name in dict(text.project.collected)
    named = text.project.names(MAKERS_NAMED.name)
    made = {f"{package}.{name}" for name in MAKERS.get(package, ())}
    return looked and package in MAKERS and not named & made
