"""Training that nothing puts on the device."""

from __future__ import annotations

import ast

from hpushim.engine.rules.rule import Code, Module, Rule, Strength, Wants, Yield

from ..analysis.versions import assess
from ..edits.arguments import argument
from ..edits.lightning import PLUGIN, with_accelerator, with_default
from ..edits.lightning import ROWS as ACCELERATORS

_TRAINERS = (
    "lightning.Trainer",
    "lightning.pytorch.Trainer",
    "pytorch_lightning.Trainer",
)
_FABRICS = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")
_CLIS = (
    "lightning.pytorch.cli.LightningCLI",
    "pytorch_lightning.cli.LightningCLI",
    "pytorch_lightning.utilities.cli.LightningCLI",
)
#: Libraries that choose a device, and words of those that are chosen.
_CHOSEN = (
    *("cuda", "hpu", "habana", "xla", "tpu", "gpu", "GPU"),
    *("ccelerat", "deepspeed", "ightning", "Trainer", "fastai", "horovod", "composer"),
    *("ignite.distributed", "idist"),  # ignite alone moves nothing
)
#: What moves a model or a batch, or makes it on a device.
_MOVES = (".to(", "device")
_OTHERS = ('"cpu"', "'cpu'", '"mps"', "'mps'")


class CpuTraining(Rule):
    """``loss.backward()`` in a project that never names a device; Lightning's ``Trainer()`` where it knows no Gaudi."""

    HPU503 = Code("training-on-the-cpu", fix=("safe", "manual"), effect="cpu")
    wants = Wants(
        names=(*_TRAINERS, *_FABRICS, *_CLIS), words=("backward",), required=("torch", "lightning", "pytorch_lightning"),
        project=(*_CHOSEN, *_MOVES, *_OTHERS),
    )  # fmt: skip
    strength = Strength.FIRM

    def on_name(self, module: Module, node: ast.expr, name: str) -> Yield:
        """A trainer, or Fabric, that is left to choose."""
        call = module.parent(node)
        if name.partition(".")[0] in module.project.modules:
            return
        if (
            module.qualified(node) != name
            or not isinstance(call, ast.Call)
            or call.func is not node
        ):
            return
        if any(k.arg is None for k in call.keywords) or any(
            isinstance(a, ast.Starred) for a in call.args
        ):
            return
        given = next((k.value for k in call.keywords if k.arg == "accelerator"), None)
        row = module.matrix.row(ACCELERATORS[name in _FABRICS], "argument")
        if row is None or assess(module, row).status != "unsupported":
            return
        if given is not None and module.constant(given) != "auto":
            if not isinstance(given, ast.Constant) and _may_be_auto(module, given):
                yield self.finding(
                    given,
                    f'`accelerator={module.source(given)}`: with "auto" Lightning 2.5.6 and later, and Fabric, train on the CPU, '
                    f"and they know no hpu; pass {PLUGIN}.accelerator({module.source(given)}), which is Gaudi's on a Gaudi",
                    row=row.name,
                )
            return
        if name in _CLIS:
            if _may_choose(module, argument(call, "trainer_defaults", 5)):
                return
            yield self.finding(
                node,
                f"`{module.source(node)}` trains on the CPU (Lightning 2.5.6 and later do not detect "
                f'hpu); pass trainer_defaults={{"accelerator": {PLUGIN}.accelerator_name()}}, and set '
                "no other accelerator",
                fix=with_default(module, call),
                row=row.name,
            )
        else:
            yield self.finding(
                node,
                f"`{module.source(node)}` trains on the CPU (Lightning 2.5.6 and later, and Fabric, "
                f"do not detect hpu); pass accelerator={PLUGIN}.HPUAccelerator()",
                fix=with_accelerator(module, call, given),
                row=row.name,
            )

    def on_module(self, module: Module) -> Yield:
        mentions = module.project.mentions
        if mentions is None:
            return
        moves, chosen = mentions & {*_MOVES}, mentions & {*_CHOSEN}
        if chosen or (moves and not mentions & {*_OTHERS}):
            return
        backward = module.index.calls("backward")
        if backward and module.index.calls("step"):
            yield self.finding(
                backward[0],
                f"`{module.source(backward[0])}` trains on the CPU: nothing moves the model to Gaudi; "
                'move the model and each batch with `.to("hpu")`',
            )


def _may_be_auto(module: Module, given: ast.expr) -> bool:
    """Is it not known, or one of several words with "auto" among them? Not where hpushim's own accelerator is passed."""
    values = [v for v in module.values(given) if not _of_plugin(module, v)]
    words = [module.constant(value) for value in values]
    return None in words or "auto" in words


def _of_plugin(module: Module, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (module.qualified(value.func) or "").startswith(PLUGIN)


def _may_choose(module: Module, defaults: ast.expr | None) -> bool:
    """Do the defaults of a ``LightningCLI`` give an accelerator, as far as is seen?"""
    if isinstance(defaults, ast.Dict):
        return any(key is None or module.constant(key) == "accelerator" for key in defaults.keys)
    return defaults is not None
