"""Characters of a text file as fixed-length training windows."""

import os

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class CharDataset(Dataset):
    def __init__(self, data, block_size, stride=None):
        self.data = data
        self.block_size = block_size
        self.stride = stride or block_size

    def __len__(self):
        return (len(self.data) - self.block_size - 1) // self.stride + 1

    def __getitem__(self, i):
        start = i * self.stride
        chunk = self.data[start : start + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class Vocabulary:
    def __init__(self, chars):
        self.chars = sorted(chars)
        self.stoi = {c: i for i, c in enumerate(self.chars)}

    def __len__(self):
        return len(self.chars)

    def encode(self, text):
        return torch.tensor([self.stoi[c] for c in text], dtype=torch.long)

    def decode(self, ids):
        return "".join(self.chars[i] for i in ids)


def load_text(path):
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} not found, run from the project folder or pass --data")
    with open(path, encoding="utf-8") as f:
        return f.read()


def build_loaders(args, distributed=False):
    text = load_text(args.data)
    vocab = Vocabulary(set(text))
    ids = vocab.encode(text)
    n = int(0.9 * len(ids))
    train_set = CharDataset(ids[:n], args.block_size, stride=args.block_size // 4)
    val_set = CharDataset(ids[n:], args.block_size)

    sampler = DistributedSampler(train_set, seed=args.seed) if distributed else None
    # page-locked buffers make the host-to-device copies asynchronous
    pin = torch.hpu.is_available() and args.device != "cpu"
    train_loader = DataLoader(
        train_set,
        batch_size=args.batch_size,
        shuffle=sampler is None,
        sampler=sampler,
        num_workers=args.num_workers,
        pin_memory=pin,
        drop_last=True,
        persistent_workers=args.num_workers > 0,
    )
    val_loader = DataLoader(val_set, batch_size=args.batch_size, num_workers=0, pin_memory=pin)
    return train_loader, val_loader, sampler, vocab
