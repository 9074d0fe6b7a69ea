"""Comments that name CUDA beside code that is rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hpushim.engine.rules.rule import Found, Rule
from hpushim.engine.rules.wants import Wants
from hpushim.model import Span

from ..edits.spelling import dual

if TYPE_CHECKING:
    from hpushim.engine.python.module import Module
    from hpushim.engine.rules.told import Told

_WORDS = ("cuda", "CUDA", "nccl", "NCCL")
#: A comment to the end of its line, alone or behind code; what holds a quote may be a part of a string.
_COMMENT = re.compile(rb"^(?P<code>[^#\r\n]*?)(?P<comment>#[^'\"\r\n]*)$", re.MULTILINE)
_NAMES = re.compile(rb"(?<![\w.\-/])(cuda|nccl)(?![\w\-/]|\.\w)", re.IGNORECASE)
#: Code that is switched off, and what tools read.
_NO_PROSE = re.compile(rb"#\s*(type:|noqa|fmt:|hpushim)|[=(]\s*[\w.]*|\.\w+\(")
_GAUDI = re.compile(rb"hpu|gaudi|hccl", re.IGNORECASE)


class Comment(Rule):
    """``x = x.cuda()  # NCCL needs a CUDA tensor``."""

    code = "HPU029"
    name = "comment-names-cuda"
    severity = "info"
    safety = "manual"
    wants = Wants(texts=_WORDS, advice=True)

    def on_rest(self, module: Module, told: Told) -> Iterable[Found]:
        if dual(module) or b"#" not in module.data:
            return
        lost = {node.lineno for node in module.index.lost if hasattr(node, "lineno")}
        for found in _COMMENT.finditer(module.data):
            text = found["comment"]
            if not _NAMES.search(text) or _NO_PROSE.search(text) or _GAUDI.search(text):
                continue
            line = module.position(found.start("comment"))[0]
            about = line if found["code"].strip() else line + 1
            if about in lost or not told.rewrites(about):
                continue
            yield self.finding(
                module,
                Span(found.start("comment"), found.end("comment")),
                "the comment names CUDA, and the code that it speaks of is rewritten for Gaudi",
            )
