"""Which framework a project trains with, where it is another one than torch."""

from __future__ import annotations

import re
from collections import Counter

#: Frameworks with a device of their own to train on, by the name that is imported.
_OTHERS = {
    b"tensorflow": "TensorFlow",
    b"keras": "Keras",
    b"jax": "JAX",
    b"flax": "JAX",
    b"haiku": "JAX",
    b"mxnet": "MXNet",
    b"paddle": "PaddlePaddle",
    b"mindspore": "MindSpore",
    b"oneflow": "OneFlow",
    b"chainer": "Chainer",
    b"theano": "Theano",
    b"caffe": "Caffe",
    b"caffe2": "Caffe2",
}
#: What is imported at the beginning of a line, in a notebook behind a quote.
_IMPORT = re.compile(rb'^[ \t"]*(?:import|from)[ \t]+([A-Za-z_]\w*)', re.MULTILINE)
#: torch, or what is made of it: a name with torch in it, and libraries that bring it.
_TORCH = re.compile(
    rb"torch|^(?:lightning|transformers|accelerate|diffusers|timm|fastai|ignite|monai|peft|trl|deepspeed|ultralytics|"
    rb"detectron2|mmcv|mmengine|sentence_transformers|optimum)$"
)


class Frameworks:
    """What the files of a project import, told file by file."""

    def __init__(self) -> None:
        self._torch = False
        self._others: Counter[str] = Counter()

    def see(self, data: bytes) -> None:
        """One file of Python, or a notebook."""
        if self._torch:
            return
        names = set(_IMPORT.findall(data))
        self._torch = any(map(_TORCH.search, names))
        self._others.update({_OTHERS[name] for name in names & _OTHERS.keys()})

    @property
    def other(self) -> str:
        """The one that most files import, where none imports torch; else ""."""
        if self._torch or not self._others:
            return ""
        return min(self._others, key=lambda name: (-self._others[name], name))
