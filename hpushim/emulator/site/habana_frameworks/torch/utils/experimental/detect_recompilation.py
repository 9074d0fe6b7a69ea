"""Finding modules and data loaders whose shapes change, which makes Gaudi compile again."""

from __future__ import annotations

import collections
import csv
from pathlib import Path

import torch


def get_shape(item):
    """The shapes of the tensors in ``item``, nested as they are: a tuple for a list or tuple, pairs of key and shape for
    a dict, the hash of anything else."""
    if isinstance(item, torch.Tensor):
        return tuple(item.shape)
    if isinstance(item, (list, tuple)):
        return tuple(get_shape(one) for one in item)
    if isinstance(item, dict):
        return tuple((get_shape(key), get_shape(value)) for key, value in item.items())
    return hash(item)


def data_dynamicity(dl):
    """How often a data loader gives each shape; shapes as :func:`get_shape` has them."""
    return dict(collections.Counter(get_shape(batch) for batch in dl))


def const_shape_dataloader(dl, maxlen):
    """A loader over batches of one shape: the first shape that comes ``maxlen`` times, or the most frequent one."""
    batches = collections.defaultdict(list)
    for batch in dl:
        found = batches[get_shape(batch)]
        found.append(batch)
        if len(found) == maxlen:
            break
    else:
        found = max(batches.values(), key=len, default=None)
        assert found, "const_shape_dataloader: the data loader gives no batch"
    return torch.utils.data.DataLoader(found, batch_size=None, collate_fn=None)


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
