"""Requirements that would replace Gaudi's torch, or that only NVIDIA GPUs can use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hpushim.engine.data.requirements import requirements
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command, Requirement, Word
from hpushim.matrix import load
from hpushim.model import Finding, Fix, Span

from ..analysis.cuda_words import LIBRARIES
from ..analysis.required import TORCH, elsewhere, replaces_torch, said
from ..analysis.verdict import ask
from ..values.releases import leaves_out_gaudis

_CONDA = re.compile(
    r"^(?:[\w-]+::)?(cudatoolkit|pytorch-cuda|cudnn|nccl|cuda(?:-[\w-]+)?)\b|\+cu\d+|=\w*cuda\w*$"
)
_PINNED = re.compile(
    r"(?:[\w-]+::)?(?P<name>pytorch|torch|torchvision|torchaudio)\s*(?P<version>(?:===?|=|<=?|~=)\s*\S.*)"
)
#: With a lower bound, and maybe an upper one behind it.
_BOUNDED = re.compile(r"(?P<name>torch)\s*(?P<version>>=?[^;]*)(?:;.*)?")
_INSTALLERS = frozenset(["pip", "conda", "mamba", "micromamba", "uv"])
#: The address of a repository, with its name.
_REPOSITORY = re.compile(r"[@/].*/([\w.-]+?)(?:\.git)?/?$")
#: Those of Linux distributions, and the packages of CUDA in them.
_SYSTEM = frozenset(["apt", "apt-get", "aptitude", "yum", "dnf", "microdnf"])
_IN_SYSTEM = re.compile(rf"(?:{LIBRARIES}|cuda|nvidia-[\w-]+|tensorrt)(?:[-=\d$].*)?")
#: Its version is a number or, as in ``cu$CU``, a variable.
_CUDA_BUILD = re.compile(r"\+cu[\d$]")
_CUDA_INDEX = re.compile(r"/whl/(nightly/|test/)?cu[\d$]")
#: Of packages for NVIDIA GPUs alone; torch is not among them.
_VENDORS = re.compile(r"pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com")


def _packages() -> tuple[str, ...]:
    """The names under which the matrix's packages are requested."""
    names = {name.rstrip("*") for row in load().by_kind("package") for name in row.names}
    spelled = {name.replace(*pair) for name in names for pair in (("_", "-"), ("-", "_"))}
    return tuple(sorted(spelled))


class RequirementsPins(TextRule):
    """``torch==…+cu121``, its index, and packages that need CUDA."""

    HPU814 = Code("cuda-build-required", severity="error", fix=("safe", "manual"))
    HPU815 = Code("cuda-package-required", fix=("unsafe", "manual"))
    HPU816 = Code("cuda-in-environment")
    HPU817 = Code("torch-pinned")
    kinds = frozenset(
        {"requirements", "yaml", "toml", "shell", "dockerfile", "makefile", "notebook"}
    )
    markers = ("torch", "nvidia", "cuda", "libcu", "libn", "tensorrt", "/cu1", "+cu1", *_packages())

    def check(self, document: Document) -> Iterator[Finding]:
        """Nothing in the agnostic style, where the torch of any device is meant."""
        if document.target.style == "agnostic":
            return
        if document.kind in ("yaml", "toml"):
            yield from self._environment(document)
            return
        if document.kind != "requirements":
            for command in document.script.commands:
                yield from self._installed(document, command)
            return
        for item in document.requirements:
            if elsewhere(document.source(item.span)):
                continue
            if item.option:
                yield from self._option(document, item)
            elif item.name in TORCH:
                yield from self._torch(document, item)
            elif item.name:
                yield from self._package(document, item)

    def _environment(self, document: Document) -> Iterator[Finding]:
        """Dependencies in a conda environment or in ``pyproject.toml``."""
        for entry in document.entries:
            listed = any(
                isinstance(part, str) and ("dependencies" in part or part == "python_packages")
                for part in entry.path
            )
            if not listed or not isinstance(entry.value, str) or elsewhere(entry.value):
                continue
            pinned = _PINNED.fullmatch(entry.value)
            if _VENDORS.search(entry.value):
                yield self._vendors(document, entry.span, entry.value)
            elif _CUDA_INDEX.search(entry.value):
                text = (
                    f"`{entry.value}` has CUDA builds, which would replace Gaudi's torch; remove it"
                )
                yield self.finding(entry.span, text, row=ask(document, "torch").row)
            elif pinned is not None and not _CONDA.search(entry.value):
                yield self._pinned(document, entry.span, pinned["name"], pinned["version"])
            elif (bounded := _BOUNDED.fullmatch(entry.value)) and leaves_out_gaudis(
                "torch", bounded["version"]
            ):
                yield self._pinned(document, entry.span, bounded["name"], bounded["version"])
            elif _CONDA.search(entry.value):
                yield self.finding(
                    entry.span,
                    f"`{entry.value}` installs CUDA, which Gaudi does not use, and may replace Gaudi's "
                    "torch; remove it",
                    row=ask(document, "torch").row,
                    code="HPU816",
                )
            else:
                yield from self._unpinned(document, entry.value, entry.span)

    def _unpinned(self, document: Document, written: str, span: Span) -> Iterator[Finding]:
        """A package that is named in a list or in a command, where no line can be commented out."""
        for item in requirements(written):
            known = (
                said(document, item.name, item.specifier) if item.name and not item.option else None
            )
            if known is not None:
                note, row, _ = known
                text = f"`{item.name}`: {note}"
                yield self.finding(span, text, row=row, code="HPU815")

    def _installed(self, document: Document, command: Command) -> Iterator[Finding]:
        """``pip install torch --index-url …/whl/cu118``, ``conda install pytorch cudatoolkit=11.1``."""
        words = [word.text for word in command.words]
        behind = words.index("install") if "install" in words else len(words)
        programs = {*map(_program, words[:behind])}
        if words[:2] == ["git", "clone"]:  # to be installed from there
            for word in command.words[2:]:
                if (name := _REPOSITORY.search(word.text)) is not None:
                    yield from self._unpinned(document, name[1], word.span)
        if programs & _SYSTEM:
            yield from self._of_system(document, command.words[behind + 1 :])
        if not programs & _INSTALLERS:
            return
        for word in command.words[behind + 1 :]:
            pinned = _PINNED.fullmatch(word.text)
            if _VENDORS.search(word.text):
                yield self._vendors(document, word.span, word.text)
            elif _CUDA_INDEX.search(word.text):
                text = (
                    f"`{word.text}` has CUDA builds, which would replace Gaudi's torch; remove it"
                )
                yield self.finding(word.span, text, row=ask(document, "torch").row)
            elif pinned and _CUDA_BUILD.search(pinned["version"]):
                text = (
                    f"`{word.text}` is a CUDA build and would replace Gaudi's; use the one in the Gaudi "
                    "image"
                )
                yield self.finding(word.span, text, row=ask(document, "torch").row)
            elif pinned:
                yield self._pinned(document, word.span, pinned["name"], pinned["version"])
            elif _CONDA.search(word.text):
                text = (
                    f"`{word.text}` installs CUDA, which Gaudi does not use, and may replace Gaudi's "
                    "torch; remove it"
                )
                row = ask(document, "torch").row
                yield self.finding(word.span, text, row=row, code="HPU816")
            elif not word.text.startswith("-"):
                yield from self._unpinned(document, word.text, word.span)

    def _of_system(self, document: Document, words: Sequence[Word]) -> Iterator[Finding]:
        """``apt-get install cuda-toolkit-12-1 libnccl-dev=2.18.3-1+cuda12.1``."""
        for word in words:
            if _IN_SYSTEM.fullmatch(word.text) or _CONDA.search(word.text):
                text = f"`{word.text}` installs CUDA, which Gaudi does not use; remove it"
                yield self.finding(word.span, text, row=ask(document, "torch").row, code="HPU816")

    def _option(self, document: Document, item: Requirement) -> Iterator[Finding]:
        if _VENDORS.search(item.value):
            yield self._vendors(document, item.span, item.value)
        elif _CUDA_INDEX.search(item.value):
            fix = Fix("drop the index", "safe", (document.replace(item.line, ""),))
            text = f"`{item.value}` has CUDA builds, which would replace Gaudi's torch; remove it"
            yield self.finding(item.span, text, fix=fix, row=ask(document, "torch").row)

    def _vendors(self, document: Document, span: Span, written: str) -> Finding:
        text = f"`{written}` has packages for NVIDIA GPUs, which Gaudi does not use; remove it"
        row = ask(document, "torch").row
        return self.finding(span, text, row=row, code="HPU816")

    def _torch(self, document: Document, item: Requirement) -> Iterator[Finding]:
        row = ask(document, "torch").row
        if _CUDA_BUILD.search(item.specifier) and item.specifier_span is not None:
            fix = Fix("drop the pin", "safe", (document.replace(item.specifier_span, ""),))
            text = (
                f"`{item.name}{item.specifier}` is a CUDA build and would replace Gaudi's; use the "
                "one in the Gaudi image"
            )
            yield self.finding(item.span, text, fix=fix, row=row)
        elif item.url and re.search(r"cu\d+|[+/]cu\$", item.url):
            text = f"`{item.name}` comes from a CUDA build; use the one in the Gaudi image"
            yield self.finding(item.span, text, row=row)
        elif leaves_out_gaudis(item.name, item.specifier):
            yield self._pinned(document, item.span, item.name, item.specifier)

    def _pinned(self, document: Document, span: Span, name: str, version: str) -> Finding:
        return self.finding(
            span, replaces_torch(f"{name}{version}"), row=ask(document, "torch").row, code="HPU817"
        )

    def _package(self, document: Document, item: Requirement) -> Iterator[Finding]:
        known = said(document, item.name, item.specifier)
        if known is None:
            return
        note, row, useless = known
        start = Span(item.line.start, item.line.start)
        fix = Fix("comment it out", "unsafe", (document.insert(start.start, "# "),))
        yield self.finding(
            item.name_span or item.span,
            f"`{item.name}`: {note}",
            fix=fix if useless else None,  # what works in part is still needed
            row=row,
            code="HPU815",
        )


def _program(word: str) -> str:
    """``pip`` for ``/opt/venv/bin/pip3.10``."""
    return re.sub(r"[\d.]+$", "", word.rpartition("/")[2])
