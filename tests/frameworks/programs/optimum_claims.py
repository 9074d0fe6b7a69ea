"""Optimum for Intel Gaudi on tiny random models: GaudiTrainer in the mode of the process, bf16, generation.

Usage: optimum_claims.py cpu|hpu [CLAIM ...]; cpu is plain Transformers
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import torch
from claims import claim, report

# A torchvision made for another torch has no operators, and Transformers only needs their names.
_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

WHERE = sys.argv[1]
LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"
if WHERE == "hpu":
    from optimum.habana import GaudiConfig, GaudiTrainer, GaudiTrainingArguments
    from optimum.habana.transformers.modeling_utils import adapt_transformers_to_gaudi

    adapt_transformers_to_gaudi()
import transformers  # noqa: E402  once it is adapted

SIZES = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64,
}  # fmt: skip


def llama() -> Any:
    transformers.set_seed(7)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2))


def bert() -> Any:
    transformers.set_seed(7)
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, **quiet))


def rows(classify: bool) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(1, 64, (12,), generator=generator) for _ in range(48)]
    mask = torch.ones(12, dtype=torch.long)
    return [
        {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": ids[0] % 2 if classify else ids.clone(),
        }
        for ids in texts
    ]


def train(make: Any, graphs: bool = False, strategy: str = "ddp", **options: Any) -> list[float]:
    model, data = make(), rows(make is bert)
    usual = {
        "output_dir": tempfile.mkdtemp(), "per_device_train_batch_size": 8, "max_steps": 6, "logging_steps": 1,
        "report_to": [], "save_strategy": "no", "learning_rate": 1e-3, "disable_tqdm": True, "seed": 7,
        "adam_epsilon": 1e-8, **options,
    }  # fmt: skip
    if WHERE == "hpu":
        usual |= {"use_habana": True, "use_lazy_mode": LAZY, "use_hpu_graphs_for_inference": LAZY}
        usual |= {"use_hpu_graphs_for_training": graphs and LAZY}
        usual["distribution_strategy"] = strategy
        config = GaudiConfig()
        config.use_fused_adam = config.use_fused_clip_norm = True
        if options.get("bf16"):
            config.use_torch_autocast = True
        arguments = GaudiTrainingArguments(**usual)
        trainer = GaudiTrainer(model, config, arguments, train_dataset=data, eval_dataset=data[:16])
    else:
        arguments = transformers.TrainingArguments(use_cpu=True, **usual)
        trainer = transformers.Trainer(model, arguments, train_dataset=data, eval_dataset=data[:16])
    trainer.train()
    measured = trainer.evaluate()["eval_loss"]
    assert {p.device.type for p in model.parameters()} == {WHERE}
    assert type(model).__name__.startswith("Gaudi") is (WHERE == "hpu" and make is llama)
    return [*(e["loss"] for e in trainer.state.log_history if "loss" in e), measured]


@claim
def encoder() -> list[float]:
    return train(bert, graphs=True)


@claim
def decoder() -> list[float]:
    return train(llama)


@claim
def bfloat16() -> list[float]:
    return train(llama, bf16=True)


@claim
def fast_ddp() -> list[float]:
    return train(llama, strategy="fast_ddp")


@claim
def context_parallel() -> list[Any]:
    """The group over which a sequence is divided, the backend of that group, and what rank 0 gets of a sequence of twelve."""
    if WHERE == "cpu" or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ["takes several processes"]
    from optimum.habana.distributed import parallel_state

    usual = {"use_habana": True, "use_lazy_mode": LAZY, "report_to": []}
    arguments = GaudiTrainingArguments(tempfile.mkdtemp(), context_parallel_size=2, **usual)
    trainer = GaudiTrainer(llama(), GaudiConfig(), arguments)
    part = trainer._prepare_input(torch.arange(12).reshape(1, 12))
    group = parallel_state.get_sequence_parallel_group()
    backend = torch.distributed.get_backend(group)
    return [torch.distributed.get_world_size(group), backend, part.device.type, part.tolist()]


@claim
def minimize_memory() -> str:
    if WHERE == "hpu":
        usual = {"use_habana": True, "use_lazy_mode": LAZY, "report_to": []}
        GaudiTrainingArguments(tempfile.mkdtemp(), minimize_memory=True, **usual)
    return os.environ.pop("PT_HPU_FP8_MINIMIZE_MEMORY", "unset")


@claim
def generation() -> list[Any]:
    model = llama().to(WHERE).eval()
    ids = torch.arange(1, 7).reshape(1, 6).to(WHERE)
    if WHERE == "cpu":
        more: dict[str, Any] = {}
    else:
        more = {"hpu_graphs": LAZY, "lazy_mode": LAZY}
        model.generation_config.static_shapes = LAZY
    tokens = model.generate(ids, max_new_tokens=8, do_sample=False, pad_token_id=0, **more)
    return [tokens.tolist()]


report()
