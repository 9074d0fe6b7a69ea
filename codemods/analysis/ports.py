"""Code that was ported to Gaudi, read as the CUDA code before the port: what rules know of CUDA they then know of it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from hpushim.patterns import lazily

_PORT = lazily(rb"\bhpu\b|\bhccl\b|\bhabana_frameworks\b")
_CUDA = lazily(rb"cuda|nccl", re.I)
_OTHER = lazily(rb"\bhabana_frameworks\.(?!torch\b)")
#: ``import habana_frameworks.torch as ht``, whose ``ht.hpu`` is torch's module of the device, and that module under a name of its own.
_BRIDGE = lazily(rb"\n[ \t]*import[ \t]+habana_frameworks\.torch(\.hpu)?[ \t]+as[ \t]+(\w+)")
#: Gaudi's words, alone or in a name; no name of an environment variable, and not the compiler.
_WORDS = lazily(rb"(?<![A-Za-z])(?<!PT_)(?:hpu|HPU|hccl|HCCL)(?![a-z])(?!_backend|_frameworks)")
_CUDAS = {b"hpu": b"cuda", b"HPU": b"CUDA", b"hccl": b"nccl", b"HCCL": b"NCCL"}
_OURS = lazily(rb"\bhabana_frameworks(?:\.\w+)*")
_BACK = lazily(rb"cuda|CUDA|nccl|NCCL")
_BACKS = {new: old for old, new in _CUDAS.items()}
#: The condition that is added to what one device alone has; its module is there only where Gaudi is.
_GUARD = lazily(rb"\bif torch\.hpu\.is_available\(\):")


def before(data: bytes, *, python: bool) -> bytes:
    """A file of a port as it was before, line for line; any other file as it is.

    A file that names CUDA beside Gaudi serves both, and is no port; nor is one about Gaudi's own libraries.
    """
    if not _PORT.search(data) or _CUDA.search(data) or _OTHER.search(data):
        return data
    if python:
        modules = [
            rb"torch\.hpu",
            *(name if whole else name + rb"\.hpu" for whole, name in _BRIDGE.findall(b"\n" + data)),
        ]
        data = re.sub(
            rb"(?<![\w.])(?:" + rb"|".join(modules) + rb")(?=\.(?!\w*(?:hpu|HPU|[Gg]raph)))",
            b"torch.cuda",
            data,
        )
    parts, end = [], 0
    for name in _OURS.finditer(data):
        parts += [_of_cuda(data[end : name.start()]), name[0]]
        end = name.end()
    return b"".join((*parts, _of_cuda(data[end:])))


def _of_cuda(text: bytes) -> bytes:
    return _WORDS.sub(lambda word: _CUDAS[word[0]], text)


def back(port: bytes, read: bytes, after: bytes) -> bytes:
    """What became of :func:`before` of a port, ``read``: lines that did not change as they were, Gaudi's words in the others."""
    lines, old, new = port.splitlines(True), read.splitlines(True), after.splitlines(True)  # fmt: skip
    bridges = [found[0] for found in _BRIDGE.finditer(b"\n" + port)]
    gone = any(bridge not in b"\n" + after for bridge in bridges)
    found: list[bytes] = []
    for kind, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():  # fmt: skip
        if kind == "equal" and not gone:
            found += lines[start:end]
        elif kind == "equal":  # what the names of the bridge gave has torch's names
            found += map(worded, old[start:end])
        else:
            found += [_GUARD.sub(b'if hasattr(torch, "hpu"):', worded(line)) for line in new[first:last]]  # fmt: skip
    return b"".join(found)


def worded(text: bytes) -> bytes:
    """Gaudi's words in place of CUDA's: in a line, or in the message of a finding."""
    return _BACK.sub(lambda word: _BACKS[word[0]], text)
