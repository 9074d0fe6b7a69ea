"""Settings of Transformers' ``Trainer`` and of the trainers that are built on it: ``TrainingArguments``, ``SFTConfig``, a class of one's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from hpushim.engine.python.module import Module

from .names import called

#: Names to look for; what lies in these packages is looked at by :func:`is_settings`.
NAMES = (
    "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainingArguments",
    "transformers.training_args.TrainingArguments",
    "transformers.training_args_seq2seq.Seq2SeqTrainingArguments",
    "sentence_transformers.*",
    "trl.*",
)
_ENDS = {
    "transformers": ("TrainingArguments",),
    "sentence_transformers": ("TrainingArguments",),
    "trl": ("Config",),
}
#: Settings of other things than a trainer.
_OTHERS = frozenset({"ModelConfig", "DatasetMixtureConfig", "DatasetConfig", "JudgeConfig"})
_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser", "ArgumentParser")
#: The options that request a package, each with the row that is reported where it is on.
SWITCHES = {
    "use_flash_attention_2": "flash_attention_2",
    "use_liger_kernel": "liger_kernel",
    "use_vllm": "vllm",
}


def is_settings(name: str) -> bool:
    """Is a dotted name a class of a trainer's settings? Those of trl's trainers are all built on ``TrainingArguments``."""
    package, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    return last.endswith(_ENDS.get(package, ())) and last not in _OTHERS


def used(module: Module, node: ast.expr) -> bool:
    """Is the class called here, handed to a parser that makes it, or the base of a class? An annotation is none of these."""
    if called(module, node) is not None or own_class(module, node) is not None:
        return True
    above = module.parent(node)
    if isinstance(above, ast.Tuple | ast.List):
        node, above = above, module.parent(above)
    if isinstance(above, ast.keyword):
        above = module.parent(above)
    if not isinstance(above, ast.Call):
        return False
    made = (
        above.func.attr if isinstance(above.func, ast.Attribute) else getattr(above.func, "id", "")
    )
    return made.endswith(_PARSERS)


def own_class(module: Module, node: ast.expr) -> ast.ClassDef | None:
    """The class that has it as a base."""
    above = module.parent(node)
    return above if isinstance(above, ast.ClassDef) and node in above.bases else None


def fields(found: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """The settings that a class gives a default, with its expression: ``optim: str = field(default="adamw_torch")``."""
    for statement in found.body:
        if not isinstance(statement, ast.AnnAssign | ast.Assign):
            continue
        target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
        value = statement.value
        if isinstance(value, ast.Call):
            value = next((k.value for k in value.keywords if k.arg == "default"), None)
        if value is not None and isinstance(target, ast.Name):
            yield target.id, value
