"""Comments that name CUDA beside code that is rewritten."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hpushim.engine.rules.claims import Said
from hpushim.engine.rules.rule import Code, Found, Module, Rule, Strength, Wants
from hpushim.model import Span
from hpushim.patterns import lazily

from ..edits.spelling import shared

_WORDS = ("cuda", "CUDA", "nccl", "NCCL")
#: A line with a comment, alone or behind code; what holds a quote may be a part of a string.
_COMMENT = lazily(r"(?P<code>[^#]*)(?P<comment>#[^'\"]*)")
_NAMES = lazily(r"(?<![\w.\-/])(cuda|nccl)(?![\w\-/]|\.\w)", re.IGNORECASE)
#: Code that is switched off, and what tools read.
_NO_PROSE = lazily(r"#\s*(type:|noqa|fmt:|hpushim)|[=(]\s*[\w.]*|\.\w+\(")
_GAUDI = lazily(r"hpu|gaudi|hccl", re.IGNORECASE)


class Comment(Rule):
    """``x = x.cuda()  # NCCL needs a CUDA tensor``."""

    HPU029 = Code("comment-names-cuda", severity="note")
    also = Wants(texts=_WORDS)
    strength = Strength.REST

    def finish(self, module: Module, said: Said, found: Sequence[Found]) -> Iterable[Found]:
        if shared(module) or not module.holds("#"):
            return
        lost = {node.lineno for node in module.index.lost if hasattr(node, "lineno")}
        for about in said.rewritten:
            if about in lost:
                continue
            for line in range(max(about - 1, 1), about + 1):
                span = _comment(module, line, behind=line == about)
                if span is not None:
                    yield self.finding(
                        span,
                        "the comment describes CUDA, but its code is rewritten for Gaudi; update the comment",
                    )


def _comment(module: Module, line: int, *, behind: bool) -> Span | None:
    """The comment of a line that names CUDA, ``behind`` code or alone."""
    whole = module.line_span(line)
    found = _COMMENT.fullmatch(module.text_at(whole).rstrip("\r\n"))
    if found is None or bool(found["code"].strip()) != behind:
        return None
    text = found["comment"]
    if not _NAMES.search(text) or _NO_PROSE.search(text) or _GAUDI.search(text):
        return None
    start = whole.start + len(found["code"].encode())
    return Span(start, start + len(text.encode()))
