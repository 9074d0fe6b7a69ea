"""Memory of the device: counters, the cache, the allocator."""

from __future__ import annotations

import ast

from hpushim.engine.python.changes import Rewrite
from hpushim.engine.rules.rule import Code, Found, Module, Yield

from ..analysis.names import called
from ..analysis.verdict import inside, known
from ..bases.torch_name import CUDA, Name, NameRule, by_name, respell
from ..edits.spelling import agnostic, shared

#: Entries of ``torch.cuda.memory_stats()``, and the functions that torch defines by them.
_ENTRIES = {
    f"{counter}_bytes.all.{when}": f"{prefix}memory_{counter}"
    for counter in ("allocated", "reserved")
    for when, prefix in (("current", ""), ("peak", "max_"))
}


class MemoryName(NameRule):
    """``torch.cuda.memory_allocated`` and its neighbours."""

    HPU401 = Code(
        "cuda-memory-statistics",
        severity="error",
        fix=("safe", "unsafe", "manual"),
        lower=by_name("warning", "note"),
    )
    HPU402 = Code(
        "cuda-empty-cache", severity="error", fix=("safe", "manual"), lower=by_name("note")
    )
    HPU403 = Code(
        "cuda-memory-reset",
        severity="error",
        fix=("safe", "manual"),
        lower=by_name("warning", "note"),
    )
    HPU404 = Code("cuda-memory-limit", fix="safe", effort="hours")
    HPU405 = Code("cuda-allocator", severity="error", effort="hours")
    HPU406 = Code("cuda-memory-history", severity="error")
    HPU418 = Code("cuda-allocator-internals", severity="error", effort="hours")

    def special(self, module: Module, use: Name, code: str) -> Yield | None:
        wanted = use.below == "memory_stats" and not agnostic(module)
        entry = _entry(module, use) if wanted else None
        return None if entry is None else [self._of_entry(module, use, code, *entry)]

    def _of_entry(self, module: Module, use: Name, code: str, read: ast.expr, key: str) -> Found:
        """One counter: the function that gives the same number, since Gaudi's table has other keys."""
        name = CUDA + _ENTRIES[key] if key in _ENTRIES else ""
        _, verdict = known(module, name or use.name)
        call = called(module, use.node)
        # Its one argument is a device, and Gaudi's functions take none.
        plain = not shared(module) or (call is not None and not call.args and not call.keywords)
        shown = module.source(read)
        if not name or verdict is None or not verdict.target or not plain:
            note = inside(verdict.note) if verdict is not None else ""
            return self.finding(
                read, f"`{shown}` reads a counter by CUDA's name: {note}",
                row=use.name, code=code, safety="manual", claims=(use.node,),
            )  # fmt: skip
        fix = Rewrite(f"call {verdict.target}", "safe", respell(module, read, verdict.target, "()"))
        return self.finding(
            read, f"`{shown}` is `{verdict.target}()` on Gaudi, whose table of counters has other keys",
            fix=fix, row=name, code=code, severity="warning", claims=(use.node,),
        )  # fmt: skip


def _entry(module: Module, use: Name) -> tuple[ast.expr, str] | None:
    """What reads one entry of the table, and its key: ``memory_stats()["key"]``, ``memory_stats().get("key", 0)``."""
    call = called(module, use.node)
    read = module.parent(call) if call is not None else None
    key: ast.expr | None = None
    if isinstance(read, ast.Subscript) and isinstance(read.ctx, ast.Load):
        key = read.slice
    elif isinstance(read, ast.Attribute) and read.attr == "get":
        read = called(module, read)
        key = read.args[0] if read is not None and read.args else None
    text = module.constant(key)
    return (read, text) if isinstance(read, ast.expr) and isinstance(text, str) else None
