"""What the page of Transformers promises on Gaudi, one function each, on tiny random models.

Usage: transformers_claims.py cpu|hpu|cuda
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from accelerate.state import AcceleratorState
from claims import claim, report
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    pipeline,
    set_seed,
)

WHERE = sys.argv[1]
KIND = "cpu" if WHERE == "cpu" else "hpu"
SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def llama(**options: Any) -> Any:
    set_seed(7)
    more = {"num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    return LlamaForCausalLM(LlamaConfig(**SIZES, **more, **options))


def bert() -> Any:
    set_seed(7)
    more = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(**SIZES, intermediate_size=64, max_position_embeddings=32, **more)
    return BertForSequenceClassification(config)


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


def arguments(**options: Any) -> TrainingArguments:
    AcceleratorState._reset_state(True)
    usual = {
        "output_dir": tempfile.mkdtemp(), "per_device_train_batch_size": 8, "max_steps": 6, "logging_steps": 1,
        "report_to": [], "save_strategy": "no", "learning_rate": 1e-3, "use_cpu": WHERE == "cpu", "disable_tqdm": True,
        "seed": 7,
    }  # fmt: skip
    return TrainingArguments(**{**usual, **options})


def trained(
    make: Any = llama, resume: str | None = None, **options: Any
) -> tuple[Any, list[float]]:
    data = rows(make is bert)
    model = make()
    trainer = Trainer(
        model=model, args=arguments(**options), train_dataset=data, eval_dataset=data[:16]
    )
    trainer.train(resume_from_checkpoint=resume)
    assert {p.device.type for p in model.parameters()} == {KIND}
    return trainer, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@claim
def device_is_found() -> str:
    return str(arguments().device.type)


@claim
def compile_backend_is_chosen() -> str | None:
    return arguments(torch_compile=True).torch_compile_backend


@claim
def float32() -> list[float]:
    return trained()[1]


@claim
def bfloat16() -> list[float]:
    return trained(bf16=True)[1]


@claim
def float16() -> list[float]:
    return trained(**{"bf16" if WHERE == "cpu" else "fp16": True})[1]


@claim
def accumulation() -> list[float]:
    return trained(gradient_accumulation_steps=2)[1]


@claim
def gradient_checkpointing() -> list[float]:
    return trained(gradient_checkpointing=True)[1]


@claim
def reentrant_checkpointing() -> list[float]:
    return trained(
        gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True}
    )[1]


@claim
def fused_optimizer() -> list[float]:
    return trained(optim="adamw_torch_fused")[1]


@claim
def compiled() -> list[float]:
    backend = {"torch_compile_backend": "aot_eager"} if WHERE == "cpu" else {}
    return trained(torch_compile=True, **backend)[1]


@claim
def evaluation() -> list[Any]:
    trainer, course = trained(bert)
    scores = trainer.predict(rows(True)[:8]).predictions.flatten().tolist()
    return [course, trainer.evaluate()["eval_loss"], scores]


@claim
def resuming() -> list[float]:
    folder = tempfile.mkdtemp()
    trained(output_dir=folder, save_strategy="steps", save_steps=3)
    saved = Path(folder, "checkpoint-3")
    kept = torch.load(saved / "rng_state.pth", weights_only=False)
    assert sorted(kept) == sorted({"cpu", "numpy", "python", KIND}), sorted(kept)
    return trained(output_dir=folder, resume=str(saved))[1]


@claim
def generation() -> list[Any]:
    model, ids = llama().to(WHERE).eval(), torch.arange(1, 7).reshape(1, 6).to(WHERE)
    usual = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    ways = ({}, {"num_beams": 3}, {"cache_implementation": "static", "disable_compile": True})
    return [model.generate(ids, **usual, **way).tolist() for way in ways]


@claim
def attention_kernels() -> list[float]:
    ids = torch.arange(1, 9).reshape(1, 8).to(WHERE)
    kinds = ("eager", "sdpa")
    return [llama(attn_implementation=k).to(WHERE)(ids, labels=ids).loss.item() for k in kinds]


@claim
def pipelines() -> float:
    words = {"[UNK]": 0, **{f"w{n}": n for n in range(1, 64)}}
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="[UNK]", pad_token="[UNK]"
    )
    places = ["cpu"] if WHERE == "cpu" else [None, WHERE, f"{WHERE}:0", 0, torch.device(WHERE)]
    scores = set()
    for place in places:
        pipe = pipeline("text-classification", model=bert(), tokenizer=tokenizer, device=place)
        assert pipe.device.type == KIND, place
        scores.add(pipe("w1 w5 w9")[0]["score"])
    assert len(scores) == 1
    return float(scores.pop())


@claim
def loading_to_the_device() -> float:
    folder = tempfile.mkdtemp()
    llama().to(WHERE).save_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(folder, device_map=WHERE)
    assert model.device.type == KIND
    return float(sum(p.double().sum() for p in model.parameters()))


@claim
def cpu_switch() -> str:
    return str(arguments(use_cpu=True).device.type)


report()
