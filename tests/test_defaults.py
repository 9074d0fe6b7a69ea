"""The default of each field of plain data says nothing: 0, "", False, None or something empty; those that say something are named here."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import hpushim
from hpushim.engine.rules.rule import Strength
from hpushim.model import Target

ROOTS = {"hpushim": Path(hpushim.__file__).parent, "hpushim.codemods": Path(__file__).parent.parent / "codemods"}  # fmt: skip
#: What is not empty.
SAYING: dict[str, Any] = {
    "cli.options.Request.fail_on": "warning",
    "engine.base.code.Code.effort": "minutes",
    "engine.base.code.Code.fix": "manual",
    "engine.base.code.Code.severity": "warning",
    "engine.python.changes.Insert.after": True,
    "engine.rules.wants.ProjectFact.kinds": ("python",),
    "engine.rules.rule.Claim.strength": Strength.USUAL,
    "engine.rules.rule.Found.strength": Strength.USUAL,
    "engine.shell.words.Instruction.stage": -1,
    "engine.shell.words.Word.constant": True,
    "matrix.schema.MatrixFile.format": 1,
    "matrix.schema.Row.area": "library",
    "matrix.schema.Row.confidence": "documented",
    "matrix.schema.Row.kind": "python",
    "matrix.schema.Row.runtime": "none",
    "model.Dependency.kind": "not assessed",
    "model.Finding.effort": "minutes",
    "model.Report.root": ".",
    "model.Report.schema_version": 2,
    "model.Report.stage": "before",
    "model.Target.gaudi": "gaudi2",
    "model.Target.mode": "portable",
    "model.Target.stack": "1.24",
    "model.Target.style": "native",
    "portfolio.rows.Row.share": 100,
    "prove.choose.Candidate.fate": "did not run",
    "prove.compare.Comparison.exact": True,
    "prove.runs.Plan.devices": 1,
    "prove.runs.Plan.mode": "lazy",
    "prove.runs.Plan.seed": 1234,
    "prove.runs.Plan.steps": 20,
    "prove.runs.Plan.timeout": 600,
    "prove.trial.Outcome.cuda": "not run on CUDA: the native style does not keep it",
    "prove.trial.Request.locate": True,
    "prove.trial.Request.seed": 1234,
    "prove.trial.Request.steps": 20,
    "prove.trial.Request.target": Target(),
    "prove.trial.Request.timeout": 600,
    "shim.run.rewrite.Rewrite.sure": True,
}
#: What a parameter means that is left out, where that is not 0 or False.
LEFT_OUT = {
    "cli.api.question.here": "True",
    "cli.output.say.nl": "True",
    "codemods.analysis.load_places.unplaced.position": "1",
    "codemods.bases.torch_name.quiet.harmless": "True",
    "codemods.devices.host_reads._made.depth": "4",
    "codemods.devices.host_reads._may_be_half.depth": "4",
    "codemods.distributed.env_variables._given.reads": "True",
    "codemods.edits.arguments.with_arguments.behind": "-1",
    "codemods.values.tensors.is_read_off.depth": "5",
    "codemods.values.tensors.lies_on_host.depth": "8",
    "codemods.values.training._tested_in.wanted": "True",
    "emulator.compiling.library.strip": "True",
    "emulator.enable.devices": "1",
    "emulator.enabling.enable.devices": "1",
    "emulator.ledger.add.amount": "1",
    "emulator.objections.report.refused": "True",
    "engine.base.text.blank.returns": "True",
    "engine.data.cells.raw.forward": "True",
    "engine.homes.of.further": "True",
    "engine.project.migrate.shared": "True",
    "engine.project.migrate.write": "True",
    "engine.rules.finding_pages.by_meaning.limit": "5",
    "following.merging.merge.marker": "7",
    "matrix.lookup.near.limit": "5",
    "matrix.query.near.limit": "5",
    "prove.bounds.of.narrowest": "True",
    "prove.compare.compare.repeats": "True",
    "prove.metrics.odd.ranks": "1",
    "pycode.steps.spend.steps": "1",
    "safe_files.folder.new.mode": "0o666",
    "safe_files.folder.new.sync": "True",
    "safe_files.folder.open.mode": "0o666",
    "safe_files.folder.write.names_stay": "True",
    "safe_files.read.follow": "True",
    "shim.devices.report_device.placing": "True",
    "shim.imports.apex.amp.initialize.enabled": "True",
    "shim.imports.apex.amp.initialize.num_losses": "1",
    "shim.imports.apex.fp16_utils.backward.update_master_grads": "True",
    "shim.imports.apex.fp16_utils.clip_master_grads.norm_type": "2",
    "shim.imports.apex.optimizers.FusedLAMB.lr": "1e-3",
    "shim.imports.apex.optimizers.__init__.adam_w_mode": "True",
    "shim.imports.apex.optimizers.__init__.bias_correction": "True",
    "shim.imports.apex.optimizers.__init__.clip": "True",
    "shim.imports.apex.optimizers.__init__.eps": "1e-8 1e-8",
    "shim.imports.apex.optimizers.__init__.lr": "1e-3",
    "shim.imports.apex.optimizers.__init__.trust_coefficient": "0.02",
    "shim.run.compiling._rewriting_compile.optimize": "-1",
    "shim.run.import_hook.install.rewriting": "True",
}
_SIGNATURE = re.compile(r"^ *(?:async )?def (\w+)\((.*?)\)(?: ->|:$)", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"(\w+)(?:: [^=,]+?)? ?= ?(True|-?\d[\d_.eo-]*)(?=[,\s)]|$)")
#: What is found out where the program runs.
FOUND = {"prove.runs.Plan.python", "prove.runs.Plan.cuda_python", "prove.trial.Request.cwd", "prove.trial.Request.look"}  # fmt: skip


def _classes() -> Iterator[type]:
    for root, folder in ROOTS.items():
        for file in sorted(folder.rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if (
                file.name == "__main__.py"
                or "site" in file.parts
                or not ("Struct" in text or "@dataclass" in text)
            ):
                continue
            parts = file.relative_to(folder).with_suffix("").parts
            module = importlib.import_module(".".join([root, *(p for p in parts if p != "__init__")]))  # fmt: skip
            for one in vars(module).values():
                if isinstance(one, type) and one.__module__ == module.__name__:
                    yield one


def _defaults(kind: Any) -> Iterator[tuple[str, Any]]:
    if issubclass(kind, msgspec.Struct):
        given = kind.__struct_defaults__
        for name, default in zip(kind.__struct_fields__[-len(given) :] if given else (), given, strict=True):  # fmt: skip
            if default is not msgspec.NODEFAULT:
                factory = getattr(default, "factory", None)
                yield name, factory() if factory is not None else default
    elif dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.default is not dataclasses.MISSING:
                yield field.name, field.default
            elif field.default_factory is not dataclasses.MISSING:
                yield field.name, field.default_factory()


def _says_nothing(value: Any) -> bool:
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return all(_says_nothing(getattr(value, name)) for name, _ in _defaults(type(value)))
    return not any(value) if isinstance(value, tuple) else not value


def test_a_default_says_nothing_unless_it_is_named() -> None:
    asked = {f"{kind.__module__}.{kind.__qualname__}.{name}".removeprefix("hpushim."): value for kind in _classes() for name, value in _defaults(kind)}  # fmt: skip
    saying = {name: value for name, value in asked.items() if not _says_nothing(value)}
    assert saying.keys() >= FOUND
    assert {name: (type(value), value) for name, value in saying.items() if name not in FOUND} == {name: (type(value), value) for name, value in SAYING.items()}  # fmt: skip
    assert len(asked) > 300


def test_a_parameter_that_is_left_out_says_nothing_unless_it_is_named() -> None:
    found: dict[str, list[str]] = {}
    for root, folder in ROOTS.items():
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            module = ".".join([*root.split(".")[1:], *parts]).removesuffix(".__init__")
            text = "" if "site" in parts else file.read_text(encoding="utf-8")
            for function, parameters in _SIGNATURE.findall(text):
                for name, value in _PARAMETER.findall(parameters):
                    if value not in ("0", "0.0"):
                        found.setdefault(f"{module}.{function}.{name}", []).append(value)
    assert {name: " ".join(values) for name, values in found.items()} == LEFT_OUT
