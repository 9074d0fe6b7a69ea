"""Container images and the switches that hand NVIDIA GPUs to a container."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.data.entries import Entry
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command
from hpushim.model import Finding, Fix, Severity, Span

from ..analysis.verdict import ask
from ..edits.floor import is_old_image

#: By its name, or by its tag, as CUDA's own are written: ``${IMAGE}:12.1.1-cudnn8-devel-ubuntu22.04``.
_IMAGE = re.compile(
    r"^(docker\.io/)?(nvidia/cuda|nvcr\.io/|pytorch/pytorch\b.*cuda|.*[:\-]cu(da)?\d|"
    r".*:(\$\{?\w+\}?|[\d.]+)(-cudnn\d*)?-(base|runtime|devel)-[a-z]+[\d.]+)",
    re.I,
)
#: In a command: ``docker run nvidia/cuda:12.1.1-base``, ``srun --container-image=nvcr.io/nvidia/pytorch:24.01-py3``.
_STARTED = re.compile(
    r"(?:--[\w-]+=)?(?:docker://)?(?P<image>(?:docker\.io/)?nvidia/cuda:\S+|nvcr\.io/nvidia/\S+|pytorch/pytorch:\S*cuda\S*)"
)
# Names that the matrix answers for; what Gaudi has instead is there.
_NVIDIA_IMAGE = "nvcr.io/nvidia/pytorch"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_GPUS = re.compile(r"nvidia\.com/(gpu|mig-[\w.]+)")
_NVIDIA_RESOURCE = "nvidia.com/gpu"
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
_HUGE_PAGES = "hugepages-2Mi"
_LABEL = re.compile(r"nvidia\.com/[\w.\-]+")


def _filled(document: Document, image: str) -> str:
    """The name of an image, with the target's release and the torch that belongs to it."""
    release = document.matrix.release(document.target.stack)
    if release is None or len(release.torch) != 1:
        return image
    parts = {"<release>": release.stack, "<torch>": release.torch[0]}
    for part, number in parts.items():
        image = image.replace(part, ".".join([*number.split("."), "0"][:3]))
    return image


class Containers(TextRule):
    """``FROM nvidia/cuda``, ``--gpus all``, ``nvidia.com/gpu``."""

    HPU810 = Code("cuda-image", severity="error", lower={"warning": "a command names the image"})
    HPU811 = Code(
        "nvidia-runtime",
        fix=("safe", "unsafe", "manual"),
        lower={"note": "Gaudi software does not read it"},
    )
    HPU812 = Code("nvidia-resource", fix=("unsafe", "manual"))
    kinds = frozenset({"dockerfile", "yaml", "shell", "makefile"})
    markers = ("nvidia", "NVIDIA", "nvcr", "cuda", "--gpus", "-runtime", "-devel", "-base")

    def check(self, document: Document) -> Iterator[Finding]:
        if document.kind == "dockerfile":
            yield from self._dockerfile(document)
        elif document.kind == "yaml":
            for entry in document.entries:
                yield from self._entry(document, entry)
        else:
            for command in document.script.commands:
                yield from self._command(document, command)

    # -- Dockerfile -------------------------------------------------------------------------

    def _dockerfile(self, document: Document) -> Iterator[Finding]:
        for instruction in document.instructions:
            if instruction.keyword == "FROM":
                words = [w for w in instruction.words if not w.text.startswith("--")]
                old = document.target.style == "agnostic" and is_old_image(
                    words[0].text if words else ""
                )
                if words and not old and _IMAGE.search(words[0].text):
                    yield self._image(document, words[0].span, words[0].text)
            for assignment in instruction.assignments:
                visible = ask(document, _VISIBLE)
                if assignment.name == _VISIBLE and visible.target:
                    new = visible.target
                    fix = Fix(f"use {new}", "safe", (document.replace(assignment.name_span, new),))
                    text = f"`{assignment.name}` is for NVIDIA's container runtime; Gaudi's runtime reads `{new}`"
                    yield self.finding(
                        assignment.name_span, text, fix=fix, row=visible.row, code="HPU811"
                    )
                elif assignment.name == _CAPABILITIES:
                    text = f"Gaudi's container runtime does not read `{_CAPABILITIES}`; remove it"
                    yield self.finding(assignment.name_span, text, code="HPU811", severity="note")
                elif (
                    instruction.keyword == "ARG"
                    and assignment.value is not None
                    and _IMAGE.search(assignment.value.text)
                ):
                    yield self._image(document, assignment.value.span, assignment.value.text)

    def _image(self, document: Document, where: Span, image: str, severity: Severity | None = None) -> Finding:  # fmt: skip
        answer = ask(document, _NVIDIA_IMAGE)
        return self.finding(
            where,
            f"`{image}` has no Gaudi software; use {_filled(document, answer.target)}",
            row=answer.row,
            severity=severity,
        )

    # -- compose and Kubernetes -------------------------------------------------------------

    def _entry(self, document: Document, entry: Entry) -> Iterator[Finding]:
        name = str(entry.path[-1]) if entry.path else ""
        if entry.key is not None and _GPUS.fullmatch(name):
            answer = ask(document, _NVIDIA_RESOURCE)
            key = document.source(entry.key).replace(name, answer.target)
            more = (
                ""
                if _has_huge_pages(document, entry)
                else f", and request memory as `{_HUGE_PAGES}` beside it, as Intel's example does"
            )
            yield self.finding(
                entry.key,
                f"`{name}` is NVIDIA's resource; use the resource of Gaudi's device plugin, `{answer.target}`{more}",
                fix=Fix(f"request {answer.target}", "unsafe", (document.replace(entry.key, key),)),
                row=answer.row,
                code="HPU812",
            )
        elif entry.value == "nvidia" and name in ("runtime", "runtimeClassName"):
            yield self.finding(
                entry.span,
                "`runtime: nvidia` gives a container NVIDIA GPUs; use the runtime `habana` for Gaudi",
                fix=Fix("use the habana runtime", "unsafe", (document.rewrite(entry, "habana"),)),
                code="HPU811",
            )
        elif entry.value == "nvidia" and name == "driver":
            text = "`driver: nvidia` reserves NVIDIA GPUs; use `runtime: habana` for Gaudi"
            yield self.finding(entry.span, text, code="HPU811")
        elif name == "gpus" and entry.path[0] == "services" and entry.key is not None:
            yield self._compose_gpus(document, entry, entry.key)
        elif (place := _named(document, entry, _VISIBLE)) is not None:
            visible = ask(document, _VISIBLE)
            yield self.finding(
                place,
                f"`{_VISIBLE}` is for NVIDIA's container runtime; Gaudi's runtime reads `{visible.target}`",
                fix=Fix(
                    f"use {visible.target}", "unsafe", (document.replace(place, visible.target),)
                ),
                row=visible.row,
                code="HPU811",
            )
        elif (place := _named(document, entry, _CAPABILITIES)) is not None:
            text = f"Gaudi's container runtime does not read `{_CAPABILITIES}`; remove it"
            yield self.finding(place, text, code="HPU811", severity="note")
        elif (place := _label(document, entry)) is not None:
            text = (
                f"only nodes with NVIDIA GPUs have `{document.source(place)}`; select nodes with "
                "Gaudi instead"
            )
            yield self.finding(place, text, code="HPU812")
        elif name == "image" and isinstance(entry.value, str) and _IMAGE.search(entry.value):
            yield self._image(document, entry.span, entry.value)

    def _compose_gpus(self, document: Document, entry: Entry, key: Span) -> Finding:
        """``gpus: all`` of a service."""
        fix = None
        beside = (*entry.path[:-1], "runtime")
        if entry.kind == "scalar" and not any(e.path == beside for e in document.entries):
            edit = document.replace(Span(key.start, entry.span.end), "runtime: habana")
            fix = Fix("use the habana runtime", "unsafe", (edit,))
        return self.finding(
            key,
            "`gpus` gives a container NVIDIA GPUs; use `runtime: habana` and "
            "`HABANA_VISIBLE_DEVICES` for Gaudi",
            fix=fix,
            row=ask(document, "docker run --gpus").row,
            code="HPU811",
        )

    # -- docker run -------------------------------------------------------------------------

    def _command(self, document: Document, command: Command) -> Iterator[Finding]:
        for word in command.words[1:]:
            if (found := _STARTED.fullmatch(word.text)) and word.constant:
                yield self._image(document, word.span, found["image"], "warning")
        if command.program not in ("docker", "podman", "nvidia-docker"):
            return
        before = ""
        for word in command.words:
            given = f"{before}={word.text}"
            before = word.text
            if word.text == "--gpus" or (word is command.words[0] and word.text == "nvidia-docker") or word.text.startswith("--gpus=") or "--runtime=nvidia" in (word.text, given):  # fmt: skip
                yield self.finding(
                    word.span,
                    f"`{given.replace('=', ' ', 1) if given == '--runtime=nvidia' else word.text}` gives the container NVIDIA GPUs; for Gaudi, use "
                    "`--runtime=habana -e HABANA_VISIBLE_DEVICES=all --cap-add=sys_nice --net=host --ipc=host`",
                    row=ask(document, "docker run --gpus").row,
                    code="HPU811",
                )


def _has_huge_pages(document: Document, entry: Entry) -> bool:
    """Whether the resources that request devices request huge pages too."""
    return any(e.path == (*entry.path[:-1], _HUGE_PAGES) for e in document.entries)


def _named(document: Document, entry: Entry, variable: str) -> Span | None:
    """Where an entry names a variable: as a key, in an item ``NAME=value``, behind Kubernetes' ``name``."""
    last = entry.path[-1] if entry.path else ""
    if entry.key is not None and last == variable:
        where = entry.key
    elif (isinstance(last, int) and str(entry.value).partition("=")[0] == variable) or (
        last == "name" and entry.value == variable
    ):
        where = entry.span
    else:
        return None
    start = where.start + document.source(where).index(variable)
    return Span(start, start + len(variable))


def _label(document: Document, entry: Entry) -> Span | None:
    """Where an entry names a label or a taint of NVIDIA's nodes: in a selector, behind ``key`` of a toleration or an expression."""
    last = str(entry.path[-1]) if entry.path else ""
    if entry.key is not None and _LABEL.fullmatch(last):
        return entry.key
    return entry.span if last == "key" and _LABEL.fullmatch(str(entry.value)) else None
