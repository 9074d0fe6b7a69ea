"""Synthetic data and tiny random models under the names that examples of libraries ask for, found as local folders.

``python held_data.py FOLDER`` writes them. It needs torch, transformers, diffusers, tokenizers, numpy, scipy and Pillow. Nothing is downloaded.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [
    a + b for a in ("ka", "le", "mi", "no", "pu", "ra") for b in ("ba", "de", "gi", "lo", "mu")
]
_CHAT = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} [SEP] {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)
_METRIC = """import datasets
import evaluate


class Glue(evaluate.Metric):
    def _info(self):
        features = {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=datasets.Features(features))

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references)}
"""
random = np.random.default_rng(0)


def sentence(least: int = 5) -> str:
    """Words of a made-up language, each likely to follow the one before."""
    start = int(random.integers(0, len(WORDS)))
    return " ".join(WORDS[(start + i) % len(WORDS)] for i in range(int(random.integers(least, 12))))


def lines(file: Path, rows: list[dict[str, Any]]) -> None:
    """JSON, a row a line."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def texts(root: Path) -> None:
    """Pairs of sentences (GLUE), running text, preferences, prompts."""

    def pair(number: int) -> dict[str, Any]:
        first, same = sentence(), int(random.integers(0, 2))
        return {"sentence1": first, "sentence2": first if same else sentence(), "label": same, "idx": number}  # fmt: skip

    splits = {"train": 96, "validation": 48, "test": 16}
    for split, number in splits.items():
        lines(root / f"nyu-mll/glue/mrpc/{split}.jsonl", [pair(i) for i in range(number)])
    files = "".join(f"  - split: {s}\n    path: mrpc/{s}.jsonl\n" for s in splits)
    kind = "dtype:\n      class_label:\n        names:\n          '0': other\n          '1': same\n"
    features = f"  - name: sentence1\n    dtype: string\n  - name: sentence2\n    dtype: string\n  - name: label\n    {kind}  - name: idx\n    dtype: int32\n"
    (root / "nyu-mll/glue/README.md").write_text(
        f"---\nconfigs:\n- config_name: mrpc\n  data_files:\n{files}dataset_info:\n- config_name: mrpc\n  features:\n{features}---\n"
    )
    for split in ("train", "test"):
        several = range(48)
        said = [(f"{sentence()} ", sentence(), sentence()) for _ in several]
        lines(root / f"preferences/{split}.jsonl", [{"prompt": p, "chosen": a, "rejected": b} for p, a, b in said])  # fmt: skip
        lines(root / f"judged/{split}.jsonl", [{"prompt": p, "completion": a, "label": i % 2 == 0} for i, (p, a, _) in enumerate(said)])  # fmt: skip
        lines(root / f"prompts/{split}.jsonl", [{"prompt": p, "answer": a} for p, a, _ in said])
        lines(root / f"text/{split}.jsonl", [{"text": sentence(8)} for _ in several])
        orders = [{"instruction": p, "input": "", "output": a} for p, a, _ in said]
        lines(root / f"orders/{split}.jsonl", orders)
    for split in splits:
        alike = [
            {"sentence1": s, "sentence2": t, "score": i / 32}
            for i, (_, s, t) in enumerate(said[:32])
        ]
        lines(root / f"sentence-transformers/stsb/{split}.jsonl", alike)
    running = "".join(f"{sentence()} .\n" for _ in range(30000))
    (root / "wikitext-2.txt").write_text(running, encoding="utf-8")
    lines(root / "wikitext/wikitext-2-v1/train.jsonl", [{"text": sentence(8)} for _ in range(32)])
    (root / "wikitext/README.md").write_text(
        "---\nconfigs:\n- config_name: wikitext-2-v1\n  data_files:\n  - split: train\n    path: wikitext-2-v1/train.jsonl\n---\n"
    )
    metric = root / "hf/modules/evaluate_modules/metrics/evaluate-metric--glue" / ("0" * 64)
    metric.mkdir(parents=True)
    for folder in (metric, *list(metric.parents)[:3]):
        (folder / "__init__.py").touch()
    (metric / "glue.py").write_text(_METRIC)
    (metric / "glue.json").write_text('{"original file path": "glue", "local file path": "glue"}')


def pictures(root: Path) -> None:
    """MNIST in 512 and in 60,000 images, images with captions (``images``) and without (``pictures``)."""
    from PIL import Image

    for name, train in (("mnist", 512), ("mnist-full", 60000), ("home/data", 128)):
        for part, number in (("train", train), ("t10k", 128)):
            labels = random.integers(0, 10, number, dtype=np.uint8)
            images = (random.integers(0, 64, (number, 28, 28)) + 19 * labels[:, None, None]).astype(np.uint8)  # fmt: skip
            for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
                kind_of = "FashionMNIST" if name.startswith("home") else "MNIST"
                file = root / name / kind_of / "raw" / f"{part}-{kind}-ubyte"
                file.parent.mkdir(parents=True, exist_ok=True)
                head = bytes((0, 0, 8, array.ndim)) + b"".join(
                    size.to_bytes(4, "big") for size in array.shape
                )
                file.write_bytes(head + array.tobytes())
    captions = []
    for folder in (root / "images", root / "pictures"):
        folder.mkdir()
    for number in range(8):
        pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        for name in ("images", "pictures"):
            Image.fromarray(pixels).save(root / name / f"{number}.png")
        captions.append({"file_name": f"{number}.png", "text": sentence()})
    lines(root / "images/metadata.jsonl", captions)
    for split in ("train", "validation"):
        for number, file in enumerate(sorted((root / "pictures").iterdir())):
            kind = root / "classes" / split / ("odd" if number % 2 else "even")
            kind.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, kind)


def graphs(root: Path) -> None:
    """A graph of 800 nodes in the files of the citation network Cora."""
    from scipy.sparse import csr_matrix

    known, labelled, nodes = 700, 70, 800
    words = (random.random((nodes, 32)) < 0.2).astype(np.float32)
    kinds = np.eye(7, dtype=np.int32)[random.integers(0, 7, nodes)]
    parts = {
        "x": csr_matrix(words[:labelled]),
        "allx": csr_matrix(words[:known]),
        "tx": csr_matrix(words[known:]),
    }
    parts |= {"y": kinds[:labelled], "ally": kinds[:known], "ty": kinds[known:]}
    parts["graph"] = {n: random.integers(0, nodes, 4).tolist() for n in range(nodes)}
    raw = root / "Planetoid/Cora/raw"
    raw.mkdir(parents=True)
    for name, part in parts.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (raw / "ind.cora.test.index").write_text("".join(f"{n}\n" for n in range(known, nodes)))


def tokenizer(length: int) -> Any:
    """Whole words of the made-up language."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "user", "assistant", *WORDS]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names |= {"mask_token": "[MASK]", "eos_token": "[SEP]", "bos_token": "[CLS]"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=length, **names)


def language_models(root: Path) -> None:
    """A BERT and a Llama of a few thousand weights."""
    import transformers

    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 40}
    bert = transformers.BertConfig(num_attention_heads=2, max_position_embeddings=64, **size)
    transformers.BertForSequenceClassification(bert).save_pretrained(root / "bert-base-cased")
    tokenizer(64).save_pretrained(root / "bert-base-cased")
    tokenizer(64).save_pretrained(root / "tiny-roberta")
    roberta = transformers.RobertaConfig(num_attention_heads=2, max_position_embeddings=66, **size)
    transformers.RobertaModel(roberta).save_pretrained(root / "tiny-roberta")
    llama = transformers.LlamaConfig(
        num_attention_heads=2, num_key_value_heads=1, pad_token_id=0, bos_token_id=2, eos_token_id=3, **size
    )  # fmt: skip
    transformers.LlamaForCausalLM(llama).save_pretrained(root / "tiny-llama")
    words = tokenizer(128)
    words.chat_template = _CHAT
    words.save_pretrained(root / "tiny-llama")


def diffusion_models(root: Path) -> None:
    """A Stable Diffusion of the smallest size, and the settings of a UNet."""
    import diffusers
    import transformers

    blocks = {"block_out_channels": (8, 16), "norm_num_groups": 4}
    unet = diffusers.UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, layers_per_block=1, cross_attention_dim=16, attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), **blocks
    )  # fmt: skip
    halves = ["DownEncoderBlock2D"] * 2, ["UpDecoderBlock2D"] * 2
    # Behind an attention block a channels-last tensor comes to GroupNorm, which keeps that on the CPU alone (as it would beside
    # CUDA): noise that is drawn like its result comes in another order, and no loss could be compared with the CPU's.
    vae = diffusers.AutoencoderKL(
        down_block_types=halves[0], up_block_types=halves[1], latent_channels=4, mid_block_add_attention=False, **blocks
    )  # fmt: skip
    letters = [chr(n) for n in range(33, 127)]
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]  # fmt: skip
    folder = root / "clip-words"
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    words = transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=32)
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=len(words),
            max_position_embeddings=32, projection_dim=16, bos_token_id=188, eos_token_id=189, pad_token_id=189
        )
    )  # fmt: skip
    diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=text, tokenizer=words, unet=unet, scheduler=diffusers.DDPMScheduler(),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).save_pretrained(root / "tiny-sd")  # fmt: skip
    plain = diffusers.UNet2DModel(
        sample_size=16, layers_per_block=1, down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"), **blocks
    )  # fmt: skip
    plain.save_config(root / "tiny-unet")


def main(root: Path) -> None:
    """Writes everything below a new folder."""
    import torch

    torch.manual_seed(0)
    root.mkdir(parents=True)
    for part in (texts, pictures, graphs, language_models, diffusion_models):
        part(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
