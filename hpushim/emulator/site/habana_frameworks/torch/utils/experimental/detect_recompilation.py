"""Finding modules and data loaders whose shapes change, which makes Gaudi compile again."""

from __future__ import annotations

import collections
import csv
from pathlib import Path

import torch
from torch.utils import _pytree


def get_shape(item):
    """The shapes of the tensors in ``item``, in order."""
    return tuple(tuple(t.shape) for t in _pytree.tree_leaves(item) if isinstance(t, torch.Tensor))


def data_dynamicity(dl):
    """Counter of the batch shapes that a data loader gives."""
    return collections.Counter(get_shape(batch) for batch in dl)


def const_shape_dataloader(dl, maxlen):
    """The batches of ``dl``, the last dimension of every tensor padded with zeros to ``maxlen``."""

    def pad(leaf):
        if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or leaf.shape[-1] >= maxlen:
            return leaf
        return torch.nn.functional.pad(leaf, (0, maxlen - leaf.shape[-1]))

    return [_pytree.tree_map(pad, batch) for batch in dl]


class _Watch:
    """Counts, for each module, the input shapes that it meets step by step."""

    def __init__(self, model):
        self.step = 0
        self.seen = collections.defaultdict(set)
        self.rows: list[tuple[int, str, str, str]] = []
        self.handles = [
            module.register_forward_pre_hook(self._hook(name), with_kwargs=True)
            for name, module in model.named_modules()
        ]

    def _hook(self, name):
        def before(module, args, kwargs):
            if name == "":
                self.step += 1
            shapes = get_shape((args, kwargs))
            if shapes not in self.seen[name]:
                self.seen[name].add(shapes)
                self.rows.append((self.step, name or "(model)", type(module).__name__, str(shapes)))

        return before


def detect_recompilation_auto_model(model, mdlname="Net", waittime=1, csv_out="out"):
    """Watch ``model``; returns it with ``analyse_dynamicity()``, which writes ``<csv_out>.csv`` and returns the rows.

    A row is (step, module, class, input shapes) for each kind of input that a module had not met before: on Gaudi
    each costs a compilation (emulated: shapes only, no compilation time).
    """
    watch = _Watch(model)

    def analyse_dynamicity():
        for handle in watch.handles:
            handle.remove()
        with Path(f"{csv_out}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "module", "class", "shapes"])
            writer.writerows(watch.rows)
        return watch.rows

    model.analyse_dynamicity = analyse_dynamicity
    return model
