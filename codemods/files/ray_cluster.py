"""The devices that a Ray cluster is given: the commands that start it, its YAML file, KubeRay's manifests, Serve's settings."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.data.entries import Entry
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command
from hpushim.model import Finding, Span

from ..analysis.verdict import ask

_ROW = "ray start --num-gpus"
#: Options of Ray's commands, and what is said instead.
_OPTIONS = {
    "--num-gpus": 'remove it, since Ray detects Gaudi devices as "HPU", or use '
    "--resources='{\"HPU\": <devices>}'",
    "--entrypoint-num-gpus": "use --entrypoint-resources='{\"HPU\": <devices>}'",
}
_IN_TEXT = re.compile(
    r"\bray\s+(?:start|job)\b.*?(?P<option>--(?:entrypoint-)?num-gpus)[ =](?!0\b)"
)
_IMAGE = re.compile(r"(?:[\w.-]+/)*rayproject/ray(?:-ml|-llm)?:\S*(?:gpu|cu\d+)\S*")


class RayCluster(TextRule):
    """``ray start --num-gpus=8``, ``resources: {"GPU": 1}`` of a node type, ``num-gpus`` of KubeRay, ``num_gpus`` of Serve."""

    HPU819 = Code("ray-cluster-resource")
    kinds = frozenset({"shell", "makefile", "dockerfile", "notebook", "yaml"})
    markers = ("ray",)

    def check(self, document: Document) -> Iterator[Finding]:
        if document.kind == "yaml":
            for entry in document.entries:
                message = _message(entry) if entry.kind == "scalar" else ""
                if message:
                    yield self._found(document, entry.span, message)
            return
        for command in document.script.commands:
            for option, where in _requested(command):
                yield self._found(document, where, f"`{option}` counts GPUs, and Ray does not count a Gaudi as one; {_OPTIONS[option]}")  # fmt: skip

    def _found(self, document: Document, where: Span, message: str) -> Finding:
        return self.finding(where, message, row=ask(document, _ROW).row)


def _requested(command: Command) -> Iterator[tuple[str, Span]]:
    """The options of a command of Ray's that count GPUs, other than none."""
    if command.program != "ray":
        return
    words = command.words[1:]
    for number, word in enumerate(words):
        if word.text == "--":
            return  # the job's own command
        option, _, value = word.text.partition("=")
        if option in _OPTIONS:
            behind = words[number + 1].text if number + 1 < len(words) else ""
            if (value or behind) != "0":
                yield option, word.span


def _message(entry: Entry) -> str:
    """What is said of a value; empty if nothing."""
    path, value = [str(part) for part in entry.path], str(entry.value)
    written = f"`{entry.name}: {value}`"
    if isinstance(entry.value, str) and (found := _IN_TEXT.search(value)):
        return (
            f"`{found['option']}` counts GPUs, and Ray does not count a Gaudi as one; "
            f"{_OPTIONS[found['option']]}"
        )
    if _IMAGE.fullmatch(value):
        return (
            f"`{value}` is Ray's image for CUDA; build one from Gaudi's PyTorch image and install "
            "Ray in it"
        )
    if value in ("0", "0.0", "None"):
        return ""
    if entry.name == "num-gpus" and "rayStartParams" in path:
        return (
            f"{written} counts GPUs, and Ray does not count a Gaudi as one; remove it and give "
            "the container habana.ai/gaudi"
        )
    if entry.name == "num_gpus" and "ray_actor_options" in path:
        return (
            f"{written} requests GPUs from Ray, which does not count a Gaudi as one; use "
            f"resources: {{HPU: {value}}}"
        )
    if entry.name == "GPU" and path[-2:-1] == ["resources"] and "available_node_types" in path:
        return (
            f"{written} sets the GPUs of a node, and Ray does not count a Gaudi as one; use HPU: "
            f"{value}"
        )
    return ""
