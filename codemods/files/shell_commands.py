"""Launch scripts: the variables, programs and options that pick NVIDIA GPUs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.engine.shell.words import Assignment, Command, Word
from hpushim.model import Edit, Finding, Fix, Safety, Span

from ..analysis.launches import (
    Elsewhere,
    commands,
    in_comments,
    launches,
    lists_devices,
    mentions,
    trains,
)
from ..analysis.modes import VARIABLE as _LAZY
from ..analysis.modes import wanted
from ..analysis.options import (
    KEPT,
    attention,
    bfloat16_value,
    for_cuda,
    gaudi_value,
    keeps_name,
    options,
    rejects,
    setting,
)
from ..analysis.trainers import SWITCHES
from ..analysis.verdict import ask, inside
from ..edits.spelling import BACKEND

_TO_CONTAINER = re.compile(r"--gpus(=|$)|--runtime=nvidia$")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_MODULES = "HABANA_VISIBLE_MODULES"
_IGNORED = re.compile(
    r"^(TORCH_)?NCCL_|^CUDA_(LAUNCH_BLOCKING|DEVICE_MAX_CONNECTIONS|DEVICE_ORDER|MODULE_LOADING|CACHE_\w+)$|"
    r"^PYTORCH_(CUDA_)?ALLOC_CONF$|^TORCH_CUDA_ARCH_LIST$|^CUBLAS_WORKSPACE_CONFIG$|"
    r"^NVIDIA_TF32_OVERRIDE$|^NVTE_"
)
_GRAPHICS = ("MUJOCO_GL", "PYOPENGL_PLATFORM")
_PATHS = re.compile(r"^CUDA_(HOME|PATH|ROOT)$|/usr/local/cuda")
_PROGRAMS = {"nvidia-smi": "hl-smi"}
#: What counts the lines of a list: all of them, or those that name a GPU.
_COUNTS = re.compile(
    rb"[ \t]*\|(?:\s|\\\n)*(?:wc\s+(?:-l|--lines)\b|(?P<named>grep\s+(?:-c|--count)\s+(?P<mark>[\"']?)GPU(?P=mark)(?![\w.])))"
)
#: The questions that both programs answer under the same names.
_QUERY = re.compile(
    r"--query-gpu=(?P<fields>((name|index|uuid|timestamp|driver_version|memory\.(total|used|free))(,|$))+)"
)
_NVIDIA_ONLY = (
    "nvcc",
    "nsys",
    "ncu",
    "nvprof",
    "dcgmi",
    "nvtop",
    "gpustat",
    "nvidia-cuda-mps-control",
)
#: Whose comments say what the lines below them do.
_COMMENTED = ("shell", "dockerfile", "makefile")
#: In the code of ``python -c``.
_CUDA_NAMES = re.compile(rb"\btorch\.cuda\.(?:\w+\.)*\w+")
_READ = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_READS = re.compile(rb"\$\{?[#!]?(\w+)")


class ShellCommands(TextRule):
    """What a launch script says about the devices."""

    HPU804 = Code("cuda-visible-devices", fix=("safe", "unsafe"))
    HPU805 = Code("cuda-path", severity="note")
    HPU806 = Code(
        "cuda-option",
        fix=("safe", "unsafe", "manual"),
        lower={"note": "the option belongs to this project"},
    )
    HPU807 = Code("nccl-variable", severity="note")
    HPU808 = Code("nvidia-program", fix=("safe", "manual"))
    HPU809 = Code("lazy-mode-unset", severity="note", fix="safe")
    HPU822 = Code("command-in-text", severity="note")
    kinds = frozenset({"shell", "dockerfile", "makefile", "notebook", "markdown"})
    markers = (
        "CUDA",
        "cuda",
        "NCCL",
        "nccl",
        "nvidia",
        "nvcc",
        "nsys",
        "egl",
        "--fp16",
        "--gpus",
        "NVTE",
        "16",
        "flash_attention",
        "dynamo_backend",
        "tf32",
        "8bit",
        "_fused",
        " gpu",
        "=gpu",
        ".gpu",
        *SWITCHES,
    )

    def check(self, document: Document) -> Iterator[Finding]:
        elsewhere = Elsewhere(document)
        if elsewhere.all:
            return
        ours = [each for each in commands(document) if not elsewhere.holds(each.span)]
        if document.kind == "markdown":
            yield from self._text(document, ours)
            return
        found = [
            *self._visible(document, elsewhere),
            *self._variables(document),
            *(self._option(document, *given) for given in _handed(document, ours)),
            *(f for command in ours for f in self._command(document, command)),
        ]
        yield from sorted(found, key=lambda finding: finding.span.start)
        if found and document.kind in ("shell", "dockerfile"):
            yield from self._lazy_mode(document, ours)

    def _text(self, document: Document, ours: list[Command]) -> Iterator[Finding]:
        """Commands in a README are listed, not changed: people copy them to machines of both kinds."""
        for command in ours:
            parts: list[Finding | Word] = [f for f in self._command(document, command) if KEPT not in f.message]  # fmt: skip
            docker = command.program in ("docker", "podman", "nvidia-docker")
            parts += [w for w in command.words if docker and _TO_CONTAINER.match(w.text)]
            named = [a for a in command.assignments if a.name == _VISIBLE or _IGNORED.match(a.name)]
            if parts or named:
                said = [named[0].name] if named else [part.message.split("`")[1] if isinstance(part, Finding) else part.text for part in parts]  # fmt: skip
                yield self.finding(
                    command.span,
                    f"`{said[0]}` makes this command one for NVIDIA GPUs; add the command for Gaudi to this document",
                    code="HPU822",
                )

    # -- variables --------------------------------------------------------------------------

    def _visible(self, document: Document, elsewhere: Elsewhere) -> Iterator[Finding]:
        """The variable and every use of it in the script, in one group; not what a program of another framework is given.

        Where one is started that reads what the script sets for all, the script has to set both variables.
        """
        set_here = [
            a
            for a in document.script.assignments
            if a.name == _VISIBLE and not elsewhere.holds(a.span)
        ]
        if not set_here and _VISIBLE not in document.text:
            return
        places = [place for place in mentions(document, _VISIBLE) if not elsewhere.holds(place)]
        within = {a.span for command in document.script.commands for a in command.assignments}
        both = bool(elsewhere.spans) and any(a.span not in within for a in set_here)
        plain = bool(set_here) and all(_lists_numbers(a) for a in set_here)
        safety: Safety = "safe" if plain else "unsafe"
        answer = ask(document, _VISIBLE, safety)
        notes = in_comments(document, _VISIBLE) if places and not elsewhere.spans and document.kind in _COMMENTED else []  # fmt: skip
        for place in places:
            edits = [document.replace(each, _MODULES) for each in (place, *notes)]
            notes = []  # they go with the first place
            fix = Fix(f"use {_MODULES}", safety, tuple(edits), _VISIBLE)
            yield self.finding(
                place,
                f"Gaudi software does not read `{_VISIBLE}`; set `{_MODULES}` instead, which selects devices by "
                f"module id (0 to 7 in a server)"
                + (
                    "; keep this variable too, for the program of another framework that is started here"
                    if both
                    else ""
                ),
                fix=fix if answer.fixable and not both else None,
                row=answer.row,
            )

    def _variables(self, document: Document) -> Iterator[Finding]:
        for assignment in document.script.assignments:
            if _IGNORED.match(assignment.name):
                answer = ask(document, assignment.name)
                text = f"Gaudi software does not read `{assignment.name}`: {inside(answer.note)}"
                yield self.finding(assignment.name_span, text, row=answer.row, code="HPU807")
            elif (
                assignment.name in _GRAPHICS and assignment.value and assignment.value.text == "egl"
            ):
                answer = ask(document, assignment.name)
                text = f"`{assignment.name}`: {inside(answer.note)}"
                yield self.finding(assignment.span, text, row=answer.row, code="HPU807")
            elif _PATHS.search(assignment.name) or _is_toolkit(assignment):
                yield self._path(document, assignment)
        for instruction in document.instructions:
            for assignment in instruction.assignments:
                known = document.matrix.unread(assignment.name) is not None  # reported by its name
                if instruction.keyword != "LABEL" and _is_toolkit(assignment) and not known:
                    yield self._path(document, assignment)

    def _path(self, document: Document, assignment: Assignment) -> Finding:
        text = f"`{assignment.name}` has a path of the CUDA toolkit, which Gaudi does not use; remove that path"
        return self.finding(assignment.span, text, code="HPU805")

    # -- commands ---------------------------------------------------------------------------

    def _command(self, document: Document, command: Command) -> Iterator[Finding]:
        program = command.program
        if program in _PROGRAMS and command.words[0].inner is not None:
            yield self._renamed(document, command, _PROGRAMS[program])
        elif program in _NVIDIA_ONLY:
            answer = ask(document, program)
            yield self.finding(
                command.words[0].span,
                f"`{program}` works on NVIDIA GPUs only; {inside(answer.note) or 'remove it'}",
                row=answer.row,
                code="HPU808",
            )
        elif program == "docker":
            return  # what a container gets is reported by the container's rule
        elif launches(command):
            yield from self._python(document, command)
            yield from self._options(document, command)

    def _renamed(self, document: Document, command: Command, new: str) -> Finding:
        word = command.words[0]
        assert word.inner is not None
        end = word.inner.end
        where = Span(end - len(command.program), end)
        edits = [document.replace(where, new)]
        safety: Safety = "safe"
        row = document.matrix.row
        query = row(f"{command.program} --query-gpu")
        for option in command.words[1:]:
            fields = _QUERY.fullmatch(option.text)
            if fields and query is not None and option.inner is not None:
                text = f"{query.target.split()[-1]}={fields['fields']}"
                edits.append(document.replace(option.inner, text))
            elif (lines := row(f"{command.program} {option.text}")) is not None and (counted := _COUNTS.match(document.data, command.span.end)):  # fmt: skip
                edits.append(document.replace(option.span, lines.target.partition(" ")[2]))
                if counted["named"]:
                    edits.append(document.replace(Span(*counted.span("named")), "wc -l"))
                safety = "unsafe"
            elif not option.text.startswith("--format="):
                safety = "unsafe"
        return self.finding(
            where,
            f"`{command.program}` shows NVIDIA GPUs only; use `{new}` on Gaudi",
            fix=Fix(f"use {new}", safety, tuple(edits)),
            row=ask(document, command.program).row,
            code="HPU808",
        )

    def _python(self, document: Document, command: Command) -> Iterator[Finding]:
        """``python -c "import torch; print(torch.cuda.device_count())"``."""
        for before, word in pairwise(command.words):
            if before.text != "-c" or word.inner is None:
                continue
            for found in _CUDA_NAMES.finditer(document.data, word.inner.start, word.inner.end):
                answer = ask(document, found[0].decode(), "safe")
                at = Span(*found.span())
                fix = Fix(f"use {answer.target}", answer.safety, (document.replace(at, answer.target),)) if answer.target else None  # fmt: skip
                shown = f"`{found[0].decode()}` is `{answer.target}` on Gaudi" if answer.target else f"`{found[0].decode()}`: {inside(answer.note)}"  # fmt: skip
                yield self.finding(at, shown, fix=fix, row=answer.row, code="HPU806")

    def _options(self, document: Document, command: Command) -> Iterator[Finding]:
        """``--device cuda``, ``--backend=nccl``, ``model.device=cuda``, ``--fp16``."""
        for word, option, value in options(command):
            new, half = gaudi_value(option, value, document.project), bfloat16_value(option, value)
            if new is not None and word.constant:
                yield self._option(document, word, option, value, new)
            elif half is not None and word.constant:
                yield self._precision(document, word, option, value, half)
            elif (row := attention(document, option, value)) is not None and word.constant:
                fix = Fix(f"use {row.target}", "unsafe", (_revalue(document, word, value, row.target),))  # fmt: skip
                yield self.finding(word.span, f"`{option} {value}`: {inside(row.note)}", fix=fix, row=row.name, code="HPU806")  # fmt: skip
            elif (row := setting(document, option, value)) is not None and word.constant:
                yield self._option(document, word, option, value, row.target.partition(": ")[2].lower(), row.name)  # fmt: skip
            elif (row := for_cuda(document, option, value)) is not None:
                yield self.finding(word.span, f"`{option} {value}`: {inside(row.note)}", row=row.name, code="HPU806")  # fmt: skip
            elif word.text in ("--fp16", "--use_fp16", "--use-fp16") and word.inner is not None and value:  # fmt: skip
                yield self._half_option(document, word, word.text.replace("fp16", "bf16"))

    def _half_option(self, document: Document, word: Word, new: str) -> Finding:
        """``--fp16`` is ``--bf16`` for scripts that have both; a project that has only the first keeps its own."""
        text = f"`{word.text}` selects float16; use bfloat16 on Gaudi"
        if keeps_name(word.text, new, document.project):
            return self.finding(word.span, f"`{word.text}` {KEPT}", code="HPU806", severity="note")
        assert word.inner is not None
        fix = Fix("use bfloat16", "unsafe", (document.replace(word.inner, new),))
        return self.finding(word.span, text, fix=fix, code="HPU806")

    def _precision(
        self, document: Document, word: Word, option: str, value: str, new: str
    ) -> Finding:
        text = ""
        fix: Fix | None = Fix("use bfloat16", "unsafe", (_revalue(document, word, value, new),))
        if rejects(option, new, document.project):
            fix, text = None, f"; this project's option does not take `{new}`"
        return self.finding(
            word.span,
            f"`{option} {value}` selects float16; use bfloat16 on Gaudi{text}",
            fix=fix,
            row=ask(document, "torch.float16").row,
            code="HPU806",
        )

    def _option(self, document: Document, word: Word, option: str, value: str, new: str, row: str = "") -> Finding:  # fmt: skip
        above = document.position(word.span.start)[0] - 1
        notes = in_comments(document, value, range(above, above + 1)) if document.kind in _COMMENTED else []  # fmt: skip
        edits = (_revalue(document, word, value, new), *(document.replace(each, new) for each in notes))  # fmt: skip
        return self.finding(
            word.span,
            f"`{option} {value}` {'compiles for CUDA' if row else 'selects CUDA'}; use `{new}` on Gaudi",
            fix=Fix(f"use {new}", "safe", edits),
            row=row or ask(document, "nccl" if new == BACKEND else "cuda").row,
            code="HPU806",
        )

    # -- the mode ---------------------------------------------------------------------------

    def _lazy_mode(self, document: Document, ours: list[Command]) -> Iterator[Finding]:
        """The execution mode said outright: Gaudi's software, its forks and libraries differ on the default."""
        if _LAZY in document.text:
            return
        value = wanted(document) or "0"
        mode = "lazy" if value == "1" else "eager"
        sets = "ENV" if document.kind == "dockerfile" else "export"
        started = [i.span for i in document.instructions if i.keyword in ("CMD", "ENTRYPOINT")]
        for command in ours:
            at = _launched(document, command, started)
            hidden = any(a.name == _VISIBLE and not _lists_numbers(a) for a in command.assignments)
            if at is not None and trains(command) and not hidden:
                edit = _line_before(document, at, f"{sets} {_LAZY}={value}")
                yield self.finding(
                    command.words[0].span,
                    f"`{_LAZY}` is not set, and its default differs between releases and libraries; set it to `{value}`, for {mode} mode",
                    fix=Fix(f"set {_LAZY}={value}", "safe", (edit,)),
                    row=ask(document, _LAZY).row,
                    code="HPU809",
                )
                return


def _launched(document: Document, command: Command, started: list[Span]) -> int | None:
    """Where the statement starts that runs the command when the script or the container is started; None for `RUN`."""
    if document.kind != "dockerfile":
        return (command.outer or command.span).start  # once, not in one branch or in every turn
    return next(
        (span.start for span in started if span.start <= command.span.start < span.end), None
    )


def _is_toolkit(assignment: Assignment) -> bool:
    return assignment.value is not None and bool(_PATHS.search(assignment.value.text))


def _lists_numbers(assignment: Assignment) -> bool:
    """Also ``export NAME``, which lists none itself, and not ``NAME=``, which hides all."""
    if assignment.value is None:
        return assignment.span.end == assignment.name_span.end
    return lists_devices(assignment.value)


def _handed(document: Document, ours: list[Command]) -> Iterator[tuple[Word, str, str, str]]:
    """Each such value with the option that gets it, what it is, and what it is on Gaudi.

    A variable that is read elsewhere as well, in a test or in a name, is none: what it does there is not seen.
    """
    values = [a for a in document.script.assignments if a.value is not None and a.value.constant]
    if not any(value.value and value.value.text.startswith(("cuda", "nccl")) for value in values):
        return
    given: dict[str, list[str]] = {}
    for command in ours:
        for _, option, text in options(command):
            if found := _READ.fullmatch(text):
                given.setdefault(found[1] or found[2], []).append(option)
    reads: dict[str, int] = {}
    for read in _READS.findall(document.data):
        reads[read.decode()] = reads.get(read.decode(), 0) + 1
    for assignment in values:
        named, word = given.get(assignment.name, []), assignment.value
        if word is None or not named or len(named) != reads.get(assignment.name):
            continue
        there = {gaudi_value(option, word.text, document.project) for option in named}
        new = there.pop()
        if new is not None and not there:
            yield word, named[0], word.text, new


def _revalue(document: Document, word: Word, value: str, new: str) -> Edit:
    """Puts ``new`` in the place of ``value``, the end of the word, whose quotes go where they are inside of it: ``--device=cu"da"``."""
    written = document.source(word.span)
    at = written.rfind(value)
    if at < 0:
        text = word.text.removesuffix(value) + new
        return document.replace(
            word.span, json.dumps(text) if written[0] == '"' else shlex.quote(text)
        )
    start = word.span.start + len(written[:at].encode())
    return document.replace(Span(start, start + len(value.encode())), new)


def _line_before(document: Document, at: int, text: str) -> Edit:
    """Puts a line in front of the statement that holds the byte ``at``."""
    line, _ = document.position(at)
    while line > 1 and document.text_at(document.line_span(line - 1)).rstrip("\r\n").endswith("\\"):
        line -= 1
    span = document.line_span(line)
    written = document.text_at(span)
    indent = written[: len(written) - len(written.lstrip(" \t"))]
    return document.insert(span.start, f"{indent}{text}{document.newline}")
