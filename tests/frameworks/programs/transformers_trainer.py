"""transformers' Trainer on a tiny random model; prints one line of JSON with the losses.

Usage: transformers_trainer.py cpu|hpu|cuda bert|llama PRECISION [BACKEND] [DDP_BACKEND]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
    set_seed,
)

SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def _model(kind: str) -> torch.nn.Module:
    if kind == "bert":
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        config = BertConfig(**SIZES, intermediate_size=64, max_position_embeddings=32, **quiet)
        return BertForSequenceClassification(config)
    config = LlamaConfig(
        **SIZES, num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64
    )
    return LlamaForCausalLM(config)


def _data(kind: str) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(1, 64, (12,), generator=generator) for _ in range(48)]
    return [
        {
            "input_ids": ids,
            "attention_mask": torch.ones(12, dtype=torch.long),
            "labels": ids[0] % 2 if kind == "bert" else ids.clone(),
        }
        for ids in rows
    ]


def main(where: str, kind: str, precision: str, backend: str = "", group: str = "") -> None:
    set_seed(7)
    model, data = _model(kind), _data(kind)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        max_steps=8,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        learning_rate=1e-3,
        use_cpu=where == "cpu",
        disable_tqdm=True,
        seed=7,
        bf16=precision == "bf16" or (precision == "fp16" and where == "cpu"),
        fp16=precision == "fp16" and where != "cpu",
        torch_compile=bool(backend),
        torch_compile_backend=backend or None,
        ddp_backend=group or None,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:16])
    trainer.train()
    measured = trainer.evaluate()
    if int(os.environ.get("RANK", "0")) == 0:
        ready = torch.distributed.is_initialized()
        result = {
            "device": arguments.device.type,
            "parameters": sorted({p.device.type for p in model.parameters()}),
            "backend": torch.distributed.get_backend() if ready else None,
            "processes": arguments.world_size,
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "weights": [measured["eval_loss"]],
        }
        sys.stdout.write(f"RESULT {json.dumps(result)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
