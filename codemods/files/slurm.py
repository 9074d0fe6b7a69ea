"""What a job requests from Slurm: NVIDIA GPUs, which its options count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Command
from hpushim.model import Finding, Span

from ..analysis.launches import Elsewhere
from ..analysis.verdict import ask

_COMMANDS = ("srun", "sbatch", "salloc")
_LINE = re.compile(rb"(?m)^#SBATCH[ \t]+(?P<words>[^#\r\n]*)")
#: Options that count Slurm's GPUs, whichever resource has their devices, and those that name the resource.
_OPTION = re.compile(
    r"--gpus(?:-per-\w+)?|-G|--gpu-(?:bind|freq)|--(?:ntasks|cpus|mem)-per-gpu|--gres|--tres-per-\w+"
)
_NAMED = ("--gres", "--tres")
_WORD = re.compile(rb"\S+")
_SETTING = re.compile(r"(slurm_)?(gres=gpu\S*|gpus_per_(node|task)=[1-9]\d*)")
#: A request for no devices.
_NONE = re.compile(r"(?:gpu:(?:\w+:)?)?0")
#: What shows that a launcher's settings are for Slurm.
_SETTINGS = ("submitit", "slurm", "partition", "sbatch", "tasks_per_node", "timeout_min")


class SlurmResources(TextRule):
    """``#SBATCH --gres=gpu:8``, ``srun --gpus-per-task 1``, ``gpus_per_node: 8`` in a launcher's settings."""

    HPU813 = Code("slurm-resource")
    kinds = frozenset({"shell", "makefile", "notebook", "yaml"})
    markers = ("#SBATCH", "srun", "sbatch", "salloc", "gres", "gpus_per_")

    def check(self, document: Document) -> Iterator[Finding]:
        if document.kind == "yaml":
            yield from self._settings(document)
            return
        if Elsewhere(document).all:
            return
        if document.kind == "shell":
            for line in _LINE.finditer(document.data):
                places = [Span(*word.span()) for word in _WORD.finditer(document.data, *line.span("words"))]  # fmt: skip
                yield from self._words(document, [(document.source(at), at) for at in places])
        for command in document.script.commands:
            if command.program in _COMMANDS:
                yield from self._words(document, _options(command))

    def _settings(self, document: Document) -> Iterator[Finding]:
        if not any(document.holds(word) for word in _SETTINGS):
            return
        for entry in document.entries:
            setting = _SETTING.fullmatch(f"{entry.name}={entry.value}")
            if entry.kind == "scalar" and setting:
                message = _message(
                    f"{entry.name}: {entry.value}", "--" + entry.name.removeprefix("slurm_")
                )
                yield self.finding(entry.span, message, row=ask(document, "--gres=gpu").row)

    def _words(self, document: Document, words: list[tuple[str, Span]]) -> Iterator[Finding]:
        for number, (text, where) in enumerate(words):
            option, _, value = text.partition("=")
            short = re.fullmatch(r"(-G)(\d+)", text)
            if short:
                option, value = short[1], short[2]
            if not _OPTION.fullmatch(option):
                continue
            if not value and number + 1 < len(words):
                value = words[number + 1][0]
            if _NONE.fullmatch(value):
                continue
            if option.startswith(_NAMED) and not re.search(r"(?:^|[,/])gpu\b", value):
                continue
            yield self.finding(where, _message(text, option), row=ask(document, "--gres=gpu").row)


def _options(command: Command) -> list[tuple[str, Span]]:
    """The words before the program that is started: options, and a word behind an option that may be its value."""
    words = [(word.text, word.span) for word in command.words[1:]]
    before = ""
    for number, (text, _) in enumerate(words):
        is_value = number > 0 and before.startswith("-") and "=" not in before
        if not text.startswith("-") and not is_value:
            return words[:number]
        before = text
    return words


def _message(text: str, option: str) -> str:
    written = "write" if option.startswith(_NAMED) else "write --gres=NAME:NUMBER with"
    return f"`{text}` requests GPUs from Slurm. With Intel's fork of Slurm it gives Gaudi devices and can stay; on another cluster, {written} the cluster's name for Gaudi devices"
