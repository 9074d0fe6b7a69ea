"""Libraries whose code is made for NVIDIA GPUs, or that have another form on Gaudi: as the matrix says."""

from __future__ import annotations

import ast
import re

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.python.exports import exported
from hpushim.engine.rules.rule import Code, Module, Strength, Wants, Yield
from hpushim.matrix import Row, load
from hpushim.model import Severity, Span

from ..analysis.kinds import enclosing_class
from ..analysis.names import word, words_with
from ..analysis.optional_packages import guarded, optional, package_of, unguarded, unnoted
from ..analysis.project_facts import EXTENSIONS, MAKERS, MAKERS_NAMED
from ..analysis.provenance import gives_device
from ..analysis.verdict import ask, inside
from ..analysis.versions import assess
from ..bases.row_argument import ADVICE, SEVERITY, Given, RowRule, may_report
from ..bases.row_argument import fix as fix_of_row
from ..edits.lightning import ROWS as ACCELERATORS
from ..edits.lightning import has_plugin, with_accelerator
from ..edits.spelling import retext
from ..values.training import serves_step

_FLASH = ("flash_attention_2", "flash_attention_3")
_ATTENTION = ("attn_implementation", "_attn_implementation")
_MAP = "device_map"
_TRAINER = "lightning.Trainer(accelerator=)"
_GPUS = "lightning.Trainer(gpus=)"
#: The strategies of Lightning that were called accelerators.
_ACCELERATORS = ("gpu", "cuda", "dp", "ddp", "ddp2", "ddp_spawn", "ddp_sharded")
#: Arguments that ask bitsandbytes to quantise.
_QUANTISED = ("load_in_8bit", "load_in_4bit")


_RANK = re.compile(r"rank|process_index|gpu_id|(^|_)gpu$", re.I)

#: The codes of classes that have another one's name put in their place.
_REPLACED = ("HPU602", "HPU718")


_BY_PACKAGE: dict[Severity, str] = {
    "warning": "its matrix row says that it works partly, or only some runs reach the import",
    "note": "the code also runs without it, or a device is passed",
}


def by_package(*severities: Severity) -> dict[Severity, str]:
    """Why a finding on a package is less severe than its code."""
    return {severity: _BY_PACKAGE[severity] for severity in severities}


class Library(RowRule):
    """An import of a package that the matrix knows, once for each package and file."""

    HPU709 = Code(
        "cuda-library", severity="error", effort="hours", lower=by_package("warning", "note")
    )
    HPU213 = Code(
        "fp8-library",
        severity="error",
        effort="hours",
        effect="numbers",
        lower=by_package("warning", "note"),
    )
    HPU320 = Code(
        "megatron-or-horovod", severity="error", effort="hours", lower=by_package("warning")
    )
    HPU609 = Code("gpu-data-loader", severity="error", effort="hours", lower=by_package("warning"))
    HPU701 = Code("hugging-face-trainer", fix=("unsafe", "manual"), lower=by_package("note"))
    HPU702 = Code("device-map")
    HPU703 = Code(
        "flash-attention",
        severity="error",
        fix=("unsafe", "manual"),
        effort="hours",
        effect="speed",
        lower=by_package("warning", "note"),
    )
    HPU704 = Code(
        "accelerate",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        effort="hours",
        lower=by_package("warning"),
    )
    HPU705 = Code(
        "lightning",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower=by_package("warning", "note"),
    )
    HPU706 = Code("diffusers")
    HPU707 = Code("deepspeed", severity="error", lower=by_package("warning", "note"))
    HPU708 = Code(
        "triton-kernel",
        severity="error",
        effort="none",
        effect="kernel",
        lower=by_package("warning", "note"),
    )
    HPU710 = Code("vision-operators", severity="error", effort="hours", lower=by_package("warning"))
    HPU712 = Code(
        "cuda-arrays", severity="error", effort="hours", lower=by_package("warning", "note")
    )
    HPU713 = Code("inference-server", effort="hours", lower=by_package("note"))
    HPU714 = Code(
        "training-toolbox", severity="error", effort="hours", lower=by_package("warning", "note")
    )
    HPU715 = Code("graph-operators", severity="error", effort="hours", lower=by_package("warning"))
    wants = Wants(
        keywords=(_MAP,),
        words=_FLASH,
        strings=(_MAP,),
        attributes=("accelerator",),
        facts=(MAKERS_NAMED, EXTENSIONS),
        project=("lightning",),
    )
    also = Wants(
        keywords=(*_ATTENTION, *_QUANTISED),
        calls=("import_module",),
        strings=("accelerator", "gpus"),
    )
    strength = Strength.FIRM

    @classmethod
    def words_of_rows(cls) -> tuple[Wants, Wants]:
        """The packages under its codes, and their arguments."""
        packages: tuple[list[str], list[str]] = [], []
        for row in load().by_kind("package"):
            if row.rule in cls.codes and may_report(row):
                names = [name for name in row.names if name.replace(".", "_").isidentifier()]
                packages[row.status in ADVICE].extend(names)
        reasons, others = super().words_of_rows()
        return reasons | Wants(imports=tuple(packages[0])), others | Wants(
            imports=tuple(packages[1])
        )

    def __init__(self) -> None:
        super().__init__()
        #: The packages that are reported, each with whether the code fails without that import.
        self._reported: dict[str, bool] = {}

    def on_call(self, module: Module, node: ast.Call) -> Yield:
        """``importlib.import_module("amp_C")``."""
        name = module.constant(node.args[0]) if node.args else None
        row = _row(module, name) if isinstance(name, str) else None
        if row is None or row.rule not in self.codes or row.name in self._reported:
            return
        verdict = assess(module, row)
        if verdict.status == "native" or optional(module, node) or name in module.project.names(EXTENSIONS.name):  # fmt: skip
            return
        self._reported[row.name] = certain = not guarded(module, node)
        severity = SEVERITY[verdict.status]
        yield self.finding(
            node,
            f"`{name}`: {inside(verdict.note)}",
            row=row.name,
            code=row.rule,
            severity="warning" if severity == "error" and not certain else severity,
        )

    def on_import(self, module: Module, alias: ast.alias, name: str) -> Yield:
        row, used = _used_part(module, alias, name) or (_row(module, name), "")
        certain = not guarded(module, alias)
        if (
            row is None
            or _is_idle(module, alias, row)
            or (row.name in self._reported and (self._reported[row.name] or not certain))
            or name.split(".", maxsplit=1)[0] in module.project.shadowing
            or name in module.project.names(EXTENSIONS.name)
        ):
            return
        verdict = assess(module, row)
        if row.rule not in self.codes or verdict.status == "native":
            return
        if row.name == "lightning" and has_plugin(module):
            return
        if row.name in MAKERS and not _makes(module, MAKERS[row.name]):
            return
        if _part_is_reported(module, alias, name):
            return
        self._reported[row.name] = certain
        severity = SEVERITY[verdict.status]
        place: ast.alias | ast.expr = alias
        package = name.split(".", maxsplit=1)[0]
        shown = next((each for each in (package, name) if each in row.names), row.name)
        said = f"{used or f'`{shown}`'}: {inside(verdict.note)}"
        if optional(module, alias):
            use = unguarded(module, alias) or unnoted(module, alias)
            then = f"but line {use.lineno} uses it without a check" if use else "so the code also runs without it"  # fmt: skip
            severity, said = severity if use else "note", f"{said}; the import is optional, {then}"
        elif severity == "error" and (use := unnoted(module, alias)):
            place, said = (
                use,
                f"{said}; line {alias.lineno} ignores that it is missing, so this raises NameError",
            )
        elif severity == "error" and not certain:
            severity = "warning"
        elif severity == "error" and row.rule == "HPU715" and not _serves_steps(module, package):
            severity, said = "warning", f"{said}; no training step of this file uses it"
        elif row.rule == "HPU714" and severity == "warning" and gives_device(module, row.names):
            severity, said = "note", f"{said}; this code passes a device"
        yield self.finding(
            place,
            said,
            row=row.name,
            code=row.rule,
            severity=severity,
            # The release is too old, and the step to one that works is a large one.
            effort="hours"
            if verdict.status == "unsupported" != row.status
            and not any(each.since for each in verdict.limits if each.text == verdict.note)
            else None,
        )

    def severity_of(self, row: Row, status: str) -> Severity:
        """Without a GPU a trainer that is to use one stops, whatever is written in its place."""
        return "error" if row.name in ACCELERATORS else SEVERITY[status]

    def fix_of(
        self, module: Module, call: ast.Call, argument: Given, row: Row, status: str
    ) -> Rewrite | None:
        """Lightning's accelerator, in releases that know no hpu by name."""
        if row.name in ACCELERATORS and status == "unsupported":
            return with_accelerator(module, call, argument.value)
        return fix_of_row(module, call, argument, row, status)

    def on_keyword(self, module: Module, node: ast.keyword) -> Yield:
        if node.arg == _MAP:
            yield from self._device_map(module, module.span(node), node.value)
        elif node.arg in _QUANTISED:
            yield from self._quantised(module, node)
        elif module.constant(node.value) in _FLASH:
            yield self.finding(
                node.value,
                f"`{module.constant(node.value)}` needs a CUDA extension; use torch's attention, "
                "`sdpa`",
                fix=Rewrite("use sdpa", "unsafe", (retext(module, node.value, "sdpa"),)),
                row="flash_attn",
                code="HPU703",
                severity="warning",
            )

    def on_attribute(self, module: Module, node: ast.Attribute) -> Yield:
        """``cfg.trainer.accelerator = "gpu"``, settings that Lightning's trainer is made of."""
        statement = module.parent(node)
        if isinstance(statement, ast.Assign) and word(node.value) == "trainer":
            yield from self._trainer(module, statement)

    def _trainer(self, module: Module, statement: ast.Assign) -> Yield:
        row = module.matrix.row(_TRAINER, "argument")
        if row is None or module.constant(statement.value) not in _ACCELERATORS:
            return
        verdict = assess(module, row)
        fix = None
        if verdict.status != "unsupported":
            fix = Rewrite("use hpu", "unsafe", (retext(module, statement.value, "hpu"),))
        yield self.finding(
            statement,
            f"`{module.source(statement).splitlines()[0]}`: {inside(verdict.note)}",
            fix=fix,
            row=row.name,
            code="HPU705",
            severity=self.severity_of(row, verdict.status),
        )

    def on_string(self, module: Module, node: ast.Constant) -> Yield:
        """``{"device_map": "auto"}``, which a call is given with ``**``; ``trainer_config["accelerator"] = "ddp"``."""
        table = module.parent(node)
        if node.value in ("accelerator", "gpus"):
            yield from self._of_trainer(module, node)
            return
        if node.value == _MAP and isinstance(table, ast.Dict) and node in table.keys:
            value = table.values[table.keys.index(node)]
            where = Span(module.span(node).start, module.span(value).end)
            yield from self._device_map(module, where, value)
        elif node.value == _MAP and isinstance(table, ast.Subscript) and table.slice is node:
            statement = module.parent(table)  # options["device_map"] = "auto"
            if isinstance(statement, ast.Assign) and table in statement.targets:
                yield from self._device_map(module, module.span(statement), statement.value)

    def _of_trainer(self, module: Module, node: ast.Constant) -> Yield:
        """A key of a table of settings for Lightning's trainer: one that is set, and the first that requests GPUs."""
        table = module.parent(node)
        held = table.value if isinstance(table, ast.Subscript) else getattr(table, "comparators", [None])[0]  # fmt: skip
        if held is None or "trainer" not in word(held).lower() or not module.holds("lightning"):
            return
        statement = module.statement(node)
        if node.value == "accelerator":
            if isinstance(statement, ast.Assign) and table in statement.targets:
                yield from self._trainer(module, statement)
        elif (
            "gpus" not in self._reported
            and (row := module.matrix.row(_GPUS, "argument")) is not None
        ):
            self._reported["gpus"] = True
            yield self.finding(
                table if table is not None else node,
                f"`{module.source(table or node)}`: {inside(assess(module, row).note)}",
                row=row.name,
                code="HPU705",
                severity="warning",
            )

    def _quantised(self, module: Module, node: ast.keyword) -> Yield:
        """``from_pretrained(…, load_in_8bit=True)``, ``BitsAndBytesConfig(load_in_4bit=True)``."""
        if module.constant(node.value) in (False, None) and isinstance(node.value, ast.Constant):
            return
        answer = ask(module, "bitsandbytes")
        yield self.finding(
            node,
            f"`{module.source(node).splitlines()[0]}` requires bitsandbytes; {inside(answer.note)}",
            row=answer.row,
            severity="warning",
        )

    def _device_map(self, module: Module, where: Span, value: ast.expr) -> Yield:
        """``from_pretrained(…, device_map="auto")``."""
        values = module.values(value)
        if any(_numbers(module, value) for value in values):
            answer = ask(module, "device_map with the number of a device")
        elif any(_spreads(module, value) for value in values):
            answer = ask(module, "transformers.AutoModel.from_pretrained(device_map=)")
        else:
            return
        shown = module.source(where).splitlines()[0]
        yield self.finding(where, f"`{shown}`: {inside(answer.note)}", row=answer.row, code="HPU702")  # fmt: skip


def _numbers(module: Module, value: ast.expr) -> bool:
    """Does a device map give the number of a device: ``0``, ``{"": 0}``, ``{"": local_rank}``?"""
    if isinstance(value, ast.Dict):
        given = value.values[0] if len(value.values) == 1 else value
        return any(_is_number(module, each) for each in (given, *module.values(given)))
    return _is_number(module, value)


def _is_number(module: Module, value: ast.expr) -> bool:
    number = module.constant(value)
    if isinstance(number, int) and not isinstance(number, bool):
        return True
    if isinstance(value, ast.Call):
        name = module.qualified(value.func) or ""
        return name.endswith(".current_device") or word(value.func) == "int"
    return bool(_RANK.search(word(value)))


def _spreads(module: Module, value: ast.expr) -> bool:
    """Does a device map leave the devices to the library, or give several?"""
    if isinstance(value, ast.Dict):
        return len({module.source(v) for v in value.values}) > 1
    return module.constant(value) in ("auto", "balanced", "balanced_low_0", "sequential")


def _row(module: Module, name: str) -> Row | None:
    """The row of the package that a name lies in, the nearest one."""
    while name:
        row = module.matrix.row(name, "package")
        if row is not None:
            return row
        name = name.rpartition(".")[0]
    return None


def _used_part(module: Module, alias: ast.alias, name: str) -> tuple[Row, str] | None:
    """The row of the part of a package that is used, ``torch_scatter.scatter_min``, also by ``scatter(…, reduce="min")``, and that use."""
    found: list[tuple[Row, str]] = []
    for use in module.index.names(alias.asname or alias.name):
        above, part = module.parent(use), name
        if isinstance(above, ast.Attribute):
            part = f"{name}.{above.attr}"
            above = module.parent(above)
        if isinstance(above, ast.Call):
            given = [module.constant(keyword.value) for keyword in above.keywords if keyword.arg == "reduce"]  # fmt: skip
            kinds = [(f"{part}_{each}", f'{word(above.func)}(reduce="{each}")') if each else (name.partition(".")[0], "") for each in given]  # fmt: skip
            kinds += [(part, part)] if part != name else []
            found += [(row, f"`{shown}` on line {above.lineno}" if shown else "") for each, shown in kinds if (row := module.matrix.row(each, "package"))]  # fmt: skip
    return min(found, key=lambda one: ("error", "warning", "note").index(SEVERITY.get(one[0].status, "note")), default=None)  # fmt: skip


def _is_idle(module: Module, alias: ast.alias, row: Row) -> bool:
    """Is a part of a package imported that works without it, and nothing of the part used?"""
    package, _, part = row.name.rpartition(".")
    if not package or module.matrix.row(package, "package") is not None or exported(module, part):
        return False
    bound = alias.asname or alias.name.partition(".")[0]
    uses = [use for use in module.index.names(bound) if isinstance(use.ctx, ast.Load)]
    if bound == package:
        return not any(getattr(module.parent(use), "attr", "") == part for use in uses)
    return not uses


def _serves_steps(module: Module, package: str) -> bool:
    """May tensors on the device reach what the imports of a package bring: is it used in a step, or in a class with a forward pass?"""
    aliases = [alias for statement in module.imports for alias in statement.names if package_of(module, alias) == package]  # fmt: skip
    uses = [use for alias in aliases for use in module.index.names((alias.asname or alias.name).partition(".")[0]) if isinstance(use.ctx, ast.Load)]  # fmt: skip
    return any(
        serves_step(module, use)
        or ((owner := enclosing_class(module, use)) is not None and any(getattr(each, "name", "") == "forward" for each in owner.body))
        for use in uses
    )  # fmt: skip


def _part_is_reported(module: Module, alias: ast.alias, name: str) -> bool:
    """Is what the import names reported where it is used, and the import goes with the rewrite of that?"""
    part = module.matrix.row(name)
    return (
        part is not None
        and part.kind == "python"
        and part.rule in _REPLACED
        and bool(part.target)
        and bool(module.index.names(alias.asname or alias.name))
    )


def _makes(module: Module, classes: tuple[str, ...]) -> bool:
    """Does the file name one of these classes, other than in an import or as the type of a parameter?"""
    return any(
        not any(isinstance(above, ast.arg) for above in module.ancestors(use))
        for name in (*classes, *(words_with(module, "Pipeline") if "Pipeline" in classes else ()))
        for use in (*module.index.names(name), *module.index.attributes(name))
    )
