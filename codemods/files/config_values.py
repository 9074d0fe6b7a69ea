"""Devices, backends and precision in YAML, JSON and TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpushim.engine.data.entries import Entry
from hpushim.engine.rules.rule import Code, Document, TextRule
from hpushim.model import Finding, Fix, Span

from ..analysis.options import (
    CUDA_DEVICE,
    HALF,
    KEPT,
    attention,
    builds,
    holds_device,
    keeps_name,
    rejects,
)
from ..analysis.verdict import ask, inside, sentence
from ..analysis.versions import assess
from ..edits.spelling import DEVICE, hpu, on_gaudi

_BACKEND_KEY = re.compile(r"backend|process_group|comm|dist", re.I)
_HALF_KEY = re.compile(r"dtype|precision|^amp|_amp$", re.I)
_ACCELERATORS = ("gpu", "cuda")
_TRAINER = "lightning.Trainer(accelerator=)"
#: An expression that a resolver evaluates: ``${eval:"…check_output('nvidia-smi …')…"}``.
_RUNS = re.compile(r"\$\{\s*[\w.]+\s*:.*nvidia-smi", re.S)


class ConfigValues(TextRule):
    """Values that a training script reads as its device, its backend, its precision."""

    HPU801 = Code("config-device", fix=("safe", "unsafe"))
    HPU802 = Code(
        "config-float16",
        fix=("unsafe", "manual"),
        effect="numbers",
        lower={"note": "the option belongs to this project"},
    )
    HPU803 = Code("config-accelerator", severity="error", fix=("unsafe", "manual"))
    HPU823 = Code("config-requires-apex")
    HPU825 = Code("config-nvidia-command", severity="error")
    kinds = frozenset({"yaml", "json", "toml"})
    markers = (
        "cuda",
        "nccl",
        "fp16",
        "float16",
        "16-",
        "precision",
        "accelerator",
        "gpus",
        "MULTI_GPU",
        "apex",
        "flash_attention",
        "nvidia-smi",
        "dynamo_backend",
    )

    def check(self, document: Document) -> Iterator[Finding]:
        if builds(document.path):
            return
        for entry in document.entries:
            if entry.kind == "scalar":
                yield from self._scalar(document, entry)
            elif entry.name == "fp16" and entry.key is not None and _scales(document, entry):
                yield self._scaled(document, entry, entry.key)

    def _scalar(self, document: Document, entry: Entry) -> Iterator[Finding]:
        value, key = entry.value, entry.name
        if value == "apex" or (value is True and key in ("apex", "use_apex")):
            yield from self._apex(document, entry)
        if "gpus" in entry.path[-2:] and any("trainer" in str(part) for part in entry.path) and _may_be_lightnings(document):  # fmt: skip
            yield from self._counted(document, entry)
        if isinstance(value, str):
            yield from self._named(document, entry)
            if _RUNS.search(value):
                yield self.finding(
                    entry.span,
                    f"the value of `{entry.dotted}` runs `nvidia-smi`, which fails where there is no NVIDIA driver, and with it whatever resolves the value; write a number, or use `hl-smi`",
                    row=ask(document, "nvidia-smi").row,
                    code="HPU825",
                )
            if found := CUDA_DEVICE.fullmatch(value):
                yield self._device(document, entry, hpu(found[1]))
            elif value.lower() == "nccl" or value.lower() == "cpu:gloo,cuda:nccl":
                yield self._backend(document, entry, value)
            elif value in HALF and _HALF_KEY.search(key):
                yield self._half(document, entry, HALF[value])
            elif (row := attention(document, key, value)) is not None:
                yield self._written(document, entry, row.target, f"`{entry.dotted}`: {inside(row.note)}", row.name)  # fmt: skip
            elif key == "accelerator" and value in (*_ACCELERATORS, "auto") and _may_be_lightnings(document):  # fmt: skip
                yield from self._accelerator(document, entry)
        elif value is True and key in ("fp16", "use_fp16"):
            yield self._fp16(document, entry)
        elif value is True and entry.path[-2:] == ("fp16", "enabled"):
            yield self._block(document, entry)
        elif value == 16 and not isinstance(value, bool) and key == "precision":
            text = "`precision: 16` selects float16; use bfloat16 on Gaudi (`bf16-mixed`)"
            yield self.finding(entry.span, text, code="HPU802")

    def _written(self, document: Document, entry: Entry, new: str, text: str, row: str | None, *, sure: bool = False, code: str = "") -> Finding:  # fmt: skip
        """The finding on a value in whose place another can be written."""
        fix = Fix(f"use {new}", "safe" if sure else "unsafe", (document.rewrite(entry, new),))
        return self.finding(entry.span, text, fix=fix, row=row, code=code or None)

    def _device(self, document: Document, entry: Entry, new: str) -> Finding:
        sure = holds_device(entry.name, str(entry.value), document.project)
        text = f"`{entry.dotted}` names a CUDA device, which Gaudi does not have; use `{new}`"
        return self._written(document, entry, new, text, ask(document, "cuda").row, sure=sure)

    def _backend(self, document: Document, entry: Entry, value: str) -> Finding:
        new, sure = on_gaudi(value.lower()), bool(_BACKEND_KEY.search(entry.name))
        text = f"`{entry.dotted}` names NVIDIA's backend; use `{new}` on Gaudi"
        return self._written(document, entry, new, text, ask(document, "nccl").row, sure=sure)

    def _apex(self, document: Document, entry: Entry) -> Iterator[Finding]:
        """``SYNC_BN_TYPE: apex``, ``apex: true``; what is installed is reported elsewhere."""
        if not entry.path or isinstance(entry.path[-1], int):
            return  # in a list of packages
        answer = ask(document, "apex")
        yield self.finding(
            entry.span,
            f"`{entry.name}` requires apex. {sentence(answer.note)}",
            row=answer.row,
            code="HPU823",
        )

    def _counted(self, document: Document, entry: Entry) -> Iterator[Finding]:
        """``trainer: {gpus: 8}``, once for a list."""
        row = document.matrix.row("lightning.Trainer(gpus=)", "argument")
        counted = entry.path[-1] == "gpus" and entry.value
        if row is None or not (counted or entry.path[-1] == 0):
            return
        yield self.finding(
            entry.span,
            f"`{entry.name}` makes Lightning look for NVIDIA GPUs: "
            f"{inside(assess(document, row).note)}",
            row=row.name,
            code="HPU803",
        )

    def _accelerator(self, document: Document, entry: Entry) -> Iterator[Finding]:
        """Lightning's setting: ``hpu`` is written only where the project's Lightning knows it."""
        row = document.matrix.row(_TRAINER, "argument")
        beside = document.matrix.row("lightning.Trainer(strategy=)", "argument")
        assert row is not None
        assert beside is not None
        verdict = assess(document, row)
        text = f"`accelerator: {entry.value}` requires an NVIDIA GPU; "
        if verdict.status == "unsupported":
            if entry.value == "auto":
                text = "`accelerator: auto` trains on the CPU with Lightning 2.5.6 and later; "
            yield self.finding(entry.span, text + inside(verdict.note), row=row.name, code="HPU803")
        elif entry.value != "auto":
            text += f"use `{DEVICE}` on Gaudi"
            yield self._written(document, entry, DEVICE, text, row.name, code="HPU803")
            text = f"`strategy: ddp`: {inside(assess(document, beside).note)}"
            for each in document.entries if document.target.style != "agnostic" else ():
                if (each.path, each.document, each.value) == ((*entry.path[:-1], "strategy"), entry.document, "ddp"):  # fmt: skip
                    yield self._written(document, each, "hpu_parallel", text, beside.name, code="HPU803")  # fmt: skip

    def _half(self, document: Document, entry: Entry, new: str) -> Finding:
        text, row = f"`{entry.dotted}` selects float16; use bfloat16 on Gaudi", ask(document, "torch.float16").row  # fmt: skip
        if rejects(entry.name, new, document.project):
            text += f"; this project's option does not take `{new}`"
            return self.finding(entry.span, text, row=row, code="HPU802")
        return self._written(document, entry, new, text, row, code="HPU802")

    def _block(self, document: Document, entry: Entry) -> Finding:
        return self.finding(
            entry.span,
            "`fp16.enabled` trains in float16 with loss scaling; use `bf16.enabled` on Gaudi",
            fix=_block(document, entry),
            row=ask(document, "fp16.enabled").row,
            code="HPU802",
        )

    def _scaled(self, document: Document, entry: Entry, key: Span) -> Finding:
        """``fp16: {loss_scale: 512}``, with which mmcv trains in float16."""
        text = f"`{entry.dotted}` trains in float16 with loss scaling; use bfloat16 on Gaudi"
        row = ask(document, "torch.float16").row
        return self.finding(key, text, row=row, code="HPU802")

    def _named(self, document: Document, entry: Entry) -> Iterator[Finding]:
        """``distributed_type: MULTI_GPU`` and other settings that the matrix knows by key and value."""
        row = document.matrix.row(f"{entry.name}: {entry.value}", "config")
        if row is None or row.rule != self.code or not row.target:
            return
        new = row.target.partition(": ")[2]
        text = f"`{row.name}` has the counterpart `{new}` on Gaudi"
        yield self._written(document, entry, new, text, row.name, sure=True)

    def _fp16(self, document: Document, entry: Entry) -> Finding:
        """``fp16: true`` becomes ``bf16: true`` unless the same table has a ``bf16`` of its own."""
        table = entry.path[:-1]
        new = entry.name.replace("fp16", "bf16")
        taken = any(
            e.path == (*table, new) and e.document == entry.document for e in document.entries
        )
        fix = None
        if keeps_name(f"--{entry.name}", f"--{new}", document.project):
            return self.finding(
                entry.key or entry.span,
                f"`{entry.dotted}` {KEPT}",
                code="HPU802",
                severity="note",
            )
        if entry.key is not None and not taken:
            key = document.source(entry.key).replace(entry.name, new)
            fix = Fix("use bfloat16", "unsafe", (document.replace(entry.key, key),))
        return self.finding(
            entry.key or entry.span,
            f"`{entry.dotted}` trains in float16; use bfloat16 on Gaudi",
            fix=fix,
            row=ask(document, "torch.float16").row,
            code="HPU802",
        )


def _may_be_lightnings(document: Document) -> bool:
    """Does Lightning occur in the project's code, or in the file itself? True where there is no code, or nobody has looked."""
    files, mentions = document.project.files, document.project.mentions
    return not files or mentions is None or "lightning" in mentions or document.holds("lightning")


def _scales(document: Document, entry: Entry) -> bool:
    """Is there a loss scale in a table, and no switch of its own?"""
    names = {e.path[len(entry.path)] for e in document.entries
             if e.document == entry.document and len(e.path) > len(entry.path) and e.path[: len(entry.path)] == entry.path}  # fmt: skip
    return "loss_scale" in names and "enabled" not in names


def _block(document: Document, entry: Entry) -> Fix | None:
    """DeepSpeed's ``fp16`` block is switched off, and a ``bf16`` block put in front of it."""
    table = entry.path[:-1]
    same = [e for e in document.entries if e.document == entry.document]
    block = next((e for e in same if e.path == table and e.key is not None), None)
    taken = any(e.path == (*table[:-1], "bf16") for e in same)
    if document.kind != "json" or block is None or block.key is None or taken:
        return None
    line, _ = document.position(block.key.start)
    start = document.line_span(line).start
    lead = document.text_at(Span(start, block.key.start))
    gap = f"{document.newline}{lead}" if not lead.strip() else " "
    new = f'"bf16": {{"enabled": true}},{gap}'
    edits = (document.insert(block.key.start, new), document.replace(entry.span, "false"))
    return Fix("switch to bf16", "unsafe", edits)
