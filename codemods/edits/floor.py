"""The oldest torch that a project allows: whether it has ``torch.accelerator``, and whether it can simply be a later one.

Where something holds it back, code is written that checks for it, and what is newer still stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from hpushim.engine.base.text import Text
from hpushim.patterns import lazily

#: The first release with ``torch.accelerator``, and releases before it.
FIRST = "2.6"
_OLDER = ("2.5.1", "2.4.1", "2.1.2", "2.0.1", "1.13.1", "1.8.1")
#: The first release with ``torch.device`` and ``.to``.
_DEVICES = "0.4"
#: A version of torch that may simply be a later one: none, or a lower bound.
_LOWER = re.compile(r"\s*(?:>=?\s*[\w.]+)?\s*")
_TORCH = ("torch", "pytorch")
#: Packages that are made for one release of torch, or that it needs, and their first release for that one; "" where there is none:
#: torch's channel of conda ended before it.
_PARTNERS = {"torchvision": "0.21", "torchaudio": "2.6", "xformers": "0.0.29", "python": "3.9", "pytorch-cuda": "", "cudatoolkit": ""}  # fmt: skip
#: The first release of packages with wheels for the oldest Python that it has a release for.
_PARTNERS |= {"numpy": "1.19.3", "scipy": "1.5.4", "pandas": "1.1.3", "scikit-learn": "0.24", "tensorflow": "2.5"}  # fmt: skip
#: Beyond every release.
_END = "1000"

#: Images with torch, and the version in their tag; NVIDIA's are numbered by year and month, and have torch 2.6 since this one.
_IMAGE = re.compile(
    r"(?:docker\.io/)?(?:nvcr\.io/nvidia/pytorch:(?P<month>\d\d\.\d\d)|pytorch/pytorch:(?P<version>\d+\.\d+))"
)
_MONTH = "25.01"

#: What this style writes, with the first release that has it.
_SINCE = {
    r"\baccelerator\.\w|get_default_backend_for_device|^torch\.(?:Event|Stream)$": FIRST,
    r"OutOfMemoryError": "2.5",
    r"\bamp\.custom_|get_device_module|get_autocast_dtype|is_autocast_enabled\(\w": "2.4",
    r"(?<!cuda\.)\bamp\.GradScaler\b": "2.3",
    r"^torch\.autocast$|(?<!cuda\.amp\.)\bautocast\(": "1.10",
}

_NAME_OF = re.compile(r"([a-z]+)(.*)")

#: A project that is installed as a package, and whether the code of that package itself is for CUDA.
INSTALLS = lazily(rb"\bsetup\(|\n\[(?:project|tool\.poetry)\]")
FOR_CUDA = lazily(
    rb"\n[^#\n]*(?:\.cuda\(|\btorch\.cuda\.|(?:\bto\(|\bdevice[(=]|[ \t]=)[ \t]*[\"']cuda)"
)
#: Folders that are beside a package.
_BESIDE = frozenset(["test", "tests", "testing", "example", "examples", "doc", "docs", "tutorial", "tutorials", "benchmark", "benchmarks", "demo", "demos", "notebooks", "scripts", "tools"])  # fmt: skip


def is_of_package(path: str) -> bool:
    """Is a file, as it is shown, in the folder of a package?"""
    folders = path.replace("\\", "/").lower().split("/")[:-1]
    return bool(folders) and _BESIDE.isdisjoint(folders)


def is_setup(path: str) -> bool:
    return path.replace("\\", "/").rpartition("/")[2] in ("setup.py", "pyproject.toml")


#: The project's facts: that it is installed as a package, and that code of such a package is for CUDA.
INSTALLED = "files that install a package"
PACKAGE_CUDA = "code for CUDA in packages"


#: The versions that texts ask for: ``torch==1.8.*``, ``python==3.7.*``, with "install " before them where it is a command or an image.
DOCUMENTED = "versions that texts ask for"
#: The oldest torch that a message of the code requires.
CODED = "torch that code requires"
_LATER = r"(?:or|and)[ \t]+(?:later|higher|above|newer|greater|up)"
_SAID = (
    r"(?i)(?<![\w/.-])(?P<name>%s)(?:\]\([^()\s]*\))?[ \t`*_()\[\]]*(?![ \t`*_()\[\]])(?:(?:currently[ \t]+)?tested[ \t]+(?:on|with)[ \t]+)?(?:versions?[ \t]+(?![ \t]))?(?P<how>[=<>~]{0,3})[ \t]*(?:-?v)?"
    rf"(?P<version>%s\.\d+(?![\d-])(?:\.\d+)*)(?P<more>\+(?!\w)|[ \t]*\(?{_LATER}%s)?"
)
#: What a text says of torch, and of what is made for one release of it.
SAID = re.compile(_SAID % ("(?:py)?torch", "[012]", ""))
_SAID_BESIDE = re.compile(_SAID % ("torchvision|torchaudio|python", r"\d", r"|[ \t]*(?:[-–,/|]|(?:up[ \t]+)?to\b|through\b|or\b|and\b)+[ \t]*\d\.\d"))  # fmt: skip
#: A command or an image, a line that states a requirement, and an entry of a list of them.
_INSTALL = re.compile(
    r"\b(?:pip3?|conda|mamba)[ \t]+(?:\S+[ \t]+){0,8}?(?:install|create)\b|^[ \t]*FROM\b"
)
_REQUIRES = re.compile(
    r"(?i)\b(?:install|requir|prerequisite|depend|tested|built|environment|implemented)|^[ \t]*(?:(?:[-*+>]|\d+\.)[ \t]+)?[\[`*_]*(?:[^\W_][\w.]*(?:[ \t]+[\d.]+|[ \t]*[=<>~]+[ \t]*[\d.]+)?[ \t]*,[ \t]*)*(?:(?:py)?torch|torchvision|torchaudio|python)(?![a-z_])"
)
#: What says of a version that it is not required, in the words around it up to a mark.
_NOT = re.compile(r"(?i)\b(?:not|longer|never|dropp?(?:s|ed)?|without)\b|n't\b")
_MARK = re.compile(r"[,:;()]|\.(?!\d)")
_AROUND = 60


def documented(text: str) -> Iterator[str]:
    """The versions that the lines of a text ask for: of torch, and of what is made for one release of it."""
    for line in text.splitlines() if "orch" in text or "ython" in text else ():
        if not requires(line):
            continue
        how = "install " if _INSTALL.search(line) else ""
        yield from (f"{how}torch{bounds_of(found)}" for found in SAID.finditer(line) if not _is_denied(line, found))  # fmt: skip
        for found in _SAID_BESIDE.finditer(line):
            if not (found["more"] or _is_denied(line, found)):
                yield f"{how}{found['name'].lower()}{bounds_of(found)}"
        image = _IMAGE.match(line.split()[1]) if line.startswith("FROM ") else None
        if image is not None and is_old_image(image[0]):
            yield f"install torch=={image['version'] or '1.8'}.*"


def requires(line: str) -> bool:
    """Does a line give what to install, or what the code of this project requires?"""
    return bool(_INSTALL.search(line) or _REQUIRES.search(line))


def _is_denied(line: str, found: re.Match[str]) -> bool:
    """Does a line say of a version that it is not required: "no longer requires Python 2.7"?"""
    before = _MARK.split(line[max(found.start() - _AROUND, 0) : found.start()])[-1]
    behind = _MARK.split(line[found.end() : found.end() + _AROUND])[0]
    return _NOT.search(f"{before} {behind}") is not None


def coded(text: str) -> Iterator[str]:
    """The lower bounds that messages of a program give: "PyTorch version 1.7.1 or higher is recommended"."""
    return (bounds_of(found) for found in SAID.finditer(text) if found["more"] and "+" not in found["more"])  # fmt: skip


def bounds_of(found: re.Match[str]) -> str:
    """The versions of torch that a text requests, as :data:`SAID` finds them."""
    how, version = found["how"], found["version"]
    if found["more"] or ">" in how:
        return f">={version}"
    if "<" in how:
        return f"{how}{version}"
    return f"=={version}" if version.count(".") > 1 else f"=={version}.*"


class Floor(NamedTuple):
    """What keeps the oldest torch of a project where it is, and that torch."""

    why: str
    oldest: str


def held(text: Text) -> Floor | None:
    """What keeps a project from asking for the first torch with ``torch.accelerator``; None where nothing does. Request it as a view."""
    oldest: list[str] = []
    older_ones: list[str] = []
    why = ""
    pinned = False
    for name, versions in text.project.pins:
        first = FIRST if name in _TORCH else _PARTNERS.get(name)
        if first is None or not text.project.requests(name, versions, text.path):
            continue
        pinned |= name in _TORCH
        old = older(versions) if name in _TORCH else None
        if old is not None:
            oldest.append(old)
        if not why and (first == "" or not _admits(versions, first)):
            why = f"`{name}{versions}`"
    for versions in sorted(text.project.names(DOCUMENTED)):
        install, _, bounds = versions.rpartition(" ")
        name, bounds = _NAME_OF.fullmatch(bounds).groups()  # type: ignore[union-attr]
        if (oldest and not install) or not text.project.requests(DOCUMENTED, versions, text.path):
            continue
        if not _admits(bounds, _PARTNERS.get(name, FIRST)):
            older_ones += filter(None, [older(bounds)]) if name == "torch" else ()
            why = why or f"the documented `{bounds}`"
    for bounds in sorted(text.project.names(CODED)) if not (pinned or older_ones) else ():
        if (old := older(bounds)) is not None:
            older_ones.append(old)
            why = why or f"the message of a program that requires `torch{bounds}`"
    oldest += older_ones
    for bounds in sorted(text.project.names(INSTALLED)) if not why else ():
        python = bounds.removeprefix("python")
        if python != bounds and not _admits(python, _PARTNERS["python"]):
            why = f"the package's `{bounds}`"
    if not why and oldest and text.project.names(INSTALLED) and not text.project.names(PACKAGE_CUDA):  # fmt: skip
        why = "the package itself, which needs no later torch,"
    return Floor(why, min(oldest, key=_numbers, default=_OLDER[-1])) if why else None


def older(versions: str) -> str | None:
    """The oldest release before :data:`FIRST` among some versions."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    with suppress(InvalidSpecifier):
        allowed = SpecifierSet(re.sub(r"\+[\w.]+", "", versions))
        exact = re.match(r"==(\d+\.\d+)((?:\.\w+)*)", versions)
        known = (*_OLDER, f"{exact[1]}{exact[2] or '.0'}") if exact else _OLDER
        found = [one for one in known if one in allowed and _numbers(one) < _numbers(FIRST)]
        return min(found, key=_numbers, default=None)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def stays(message: str, floor: Floor) -> str:
    """The message on a requirement that is not raised."""
    return f"{message.partition('; ')[0]}; hpushim does not raise it, because of {floor.why}; the rewritten code checks whether torch has that name"


def too_new(texts: Iterable[str], floor: Floor) -> str:
    """What of some texts the oldest torch of a project lacks; "" where it has all, or the text checks for it."""
    if _numbers(floor.oldest) < _numbers(_DEVICES):
        return "torch.device"
    for text in texts:
        if "hasattr(" in text:
            continue
        for pattern, since in _SINCE.items():
            found = re.search(pattern, text)
            if found is not None and _numbers(floor.oldest) < _numbers(since):
                return text if len(text) < 60 else found[0].rstrip("(")
    return ""


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
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import Version

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


def admits_old_python(versions: str) -> bool:
    """Is a Python among the versions for which the first torch with ``torch.accelerator`` has no release?"""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    with suppress(InvalidSpecifier):
        return "3.8" in SpecifierSet(versions)
    return False


def _admits(versions: str, first: str) -> bool:
    """Is a release from ``first`` on among the versions?"""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        allowed = SpecifierSet(versions)
    except InvalidSpecifier:
        return True
    named = [each.version.removesuffix(".*") for each in allowed if each.operator != "==="]
    with suppress(InvalidVersion):
        newer = [name for name in named if Version(name) >= Version(first)]
        return any(each in allowed for each in (first, f"{first}.1", *newer, _END))
    return True
