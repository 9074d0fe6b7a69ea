"""Write verses with a trained model:  python sample.py out/last.pt --prompt "The harbour" """

import argparse

import torch
import habana_frameworks.torch.core as htcore

from dataset import Vocabulary, load_text
from model import GPT, GPTConfig

parser = argparse.ArgumentParser()
parser.add_argument("checkpoint")
parser.add_argument("--data", default="data/verses.txt")
parser.add_argument("--prompt", default="The ")
parser.add_argument("--tokens", type=int, default=200)
parser.add_argument("--temperature", type=float, default=0.8)
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--no-cuda", action="store_true", help="stay on the CPU")
args = parser.parse_args()

device = "hpu" if torch.hpu.is_available() and not args.no_cuda else "cpu"
state = torch.load(args.checkpoint, map_location=device)
saved = state["args"]
vocab = Vocabulary(set(load_text(args.data)))
model = GPT(
    GPTConfig(
        vocab_size=len(vocab),
        block_size=saved["block_size"],
        n_layer=saved["n_layer"],
        n_head=saved["n_head"],
        n_embd=saved["n_embd"],
    )
)
model.load_state_dict(state["model"])
model.to(device)
model.eval()

torch.manual_seed(args.seed)
idx = vocab.encode(args.prompt)[None].to(device)
with torch.autocast(device_type="hpu", dtype=torch.bfloat16, enabled=device == "hpu"):
    out = model.generate(idx, args.tokens, temperature=args.temperature)
print(vocab.decode(out[0].tolist()))
