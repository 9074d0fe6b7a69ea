"""Options of the command line that are named for CUDA or float16: the names stay, what they do is told."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from hpushim.engine.rule import Rule
from hpushim.model import Finding

from ._claims import kept_whole
from ._text import device_name

if TYPE_CHECKING:
    from hpushim.engine.syntax import Module

_DECLARES = re.compile(r"^(add_argument|add_option|option|DEFINE_\w+)$")
_WORDS = re.compile(r"[-_.]+")
_CARD = frozenset(["cuda", "gpu"])
_CARDS = frozenset(["gpus", "ngpu", "ngpus"])
_HALF = frozenset(["fp16", "float16", "half", "apex"])
_SCALING = ("loss-scale", "opt-level", "loss-scaling", "loss-scale-window", "init-loss-scale")


class OptionName(Rule):
    """``parser.add_argument("--use_cuda")``, ``"--fp16"``."""

    code = "HPU024"
    name = "option-named-for-cuda"
    severity = "info"
    safety = "manual"
    also: ClassVar[dict[str, str]] = {"HPU214": "option-for-float16"}
    markers = (
        *(b"--cuda", b"-cuda", b"_cuda", b"--gpu", b"-gpu", b"_gpu", b"--ngpu"),
        *(
            b"--fp16",
            b"--half",
            b"--apex",
            b"loss-scale",
            b"loss_scale",
            b"opt-level",
            b"opt_level",
        ),
    )

    def on_Call(self, module: Module, node: ast.Call) -> Iterator[Finding]:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if not _DECLARES.match(called) or kept_whole(module):
            return
        for given in node.args:
            text = module.constant(given)
            if not isinstance(text, str) or not (text.startswith("--") or "DEFINE" in called):
                continue
            said = _said(text.lstrip("-"))
            if said is not None:
                code, what = said
                yield self.finding(module, given, f"`{text}` keeps its name: {what}", code=code)
                return


def _said(option: str) -> tuple[str, str] | None:
    """The code and what to say of an option; None for one that is named for neither."""
    words = _WORDS.split(option.lower())
    if "-".join(words) in _SCALING or words[-2:] == ["loss", "scale"]:
        return "HPU214", "it sets the loss scaling of float16, which bfloat16 does without"
    if _HALF & set(words):
        return "HPU214", "the half precision that it asks for is bfloat16 on Gaudi"
    if _CARD & set(words) and not device_name(option):
        return "HPU024", "the card that it speaks of is Gaudi's after the rewrite"
    if _CARDS & set(words):
        return "HPU024", "on Gaudi it counts cards, each of which has a process of its own"
    return None
