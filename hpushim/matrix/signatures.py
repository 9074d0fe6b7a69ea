"""What torch's own type stubs say of its public names: which parameters take a device, a dtype, a tensor; what is returned.

``tests/matrix/torch_stubs.py`` writes the data from the stubs of several releases; they are read at the first question.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("torch_signatures.txt")


class Signature(NamedTuple):
    """One name. ``takes`` has kind, name and place of each parameter that is a device, a dtype or a tensor."""

    form: str  #: ``function``, ``class`` or ``attribute``
    returns: str  #: kinds joined by ``|``: ``tensor``, ``tensors``, ``number``, ``bool``, ``size``, ``module`` …; ``?`` for others
    takes: tuple[tuple[str, str, int | None], ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that it may return."""
        return tuple(self.returns.split("|"))

    def parameter(self, kind: str) -> tuple[str, int | None] | None:
        """Name and place of the first parameter of a kind; no place for one that is only given by name."""
        return next(((name, place) for what, name, place in self.takes if what == kind), None)


def of(name: str) -> Signature | None:
    """The signature of ``torch.zeros``, ``torch.Tensor.to``, ``torch.nn.Linear``; None for what torch's stubs lack."""
    known = _names().get(name)
    return _parsed(known) if known is not None else None


def names() -> frozenset[str]:
    """Every name that the data have, whatever release it is in."""
    return frozenset(_names())


@cache
def members(owner: str) -> dict[str, Signature]:
    """The methods and attributes of ``torch.Tensor``, ``torch.nn.Module`` and the like, by their last name."""
    head = f"{owner}."
    return {
        name[len(head) :]: _parsed(written)
        for name, written in _names().items()
        if name.startswith(head) and "." not in name[len(head) :]
    }


def releases() -> tuple[tuple[int, ...], ...]:
    """The releases of torch that the data come from."""
    return tuple(_release(word) for word in _lines()[0][1].split()[2:])


def within(name: str) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """The first and the last release that has a name; None where it is in the oldest, or the newest, one looked at."""
    return _within().get(name, (None, None))


def line(signature: Signature) -> str:
    """How the data write a signature."""
    takes = (f"{kind}:{name}" + (f"@{place}" if place is not None else "") for kind, name, place in signature.takes)  # fmt: skip
    return "\t".join((signature.form, signature.returns, " ".join(takes)))


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@cache
def _names() -> dict[str, str]:
    return {
        re.split("[<>]", name, maxsplit=1)[0]: what
        for what, listed in _lines()[1:]
        for name in listed.split()
    }


@cache
def _within() -> dict[str, tuple[tuple[int, ...] | None, tuple[int, ...] | None]]:
    found = {}
    for _, listed in _lines()[1:]:
        for word in listed.split():
            whole = re.fullmatch(r"([^<>]+)(?:>([\d.]+))?(?:<([\d.]+))?", word)
            assert whole is not None, word
            since, until = (_release(text) if text else None for text in whole.group(2, 3))
            if since or until:
                found[whole[1]] = (since, until)
    return found


@cache
def _lines() -> list[tuple[str, str]]:
    text = FILE.read_text(encoding="utf-8")
    parted = (each.rpartition("\t") for each in text.splitlines())
    return [(what, listed) for what, _, listed in parted]


@cache
def _parsed(written: str) -> Signature:
    form, returns, takes = written.split("\t")
    return Signature(form, returns, tuple(_taken(word) for word in takes.split()))


def _taken(word: str) -> tuple[str, str, int | None]:
    kind, _, rest = word.partition(":")
    name, _, place = rest.partition("@")
    return kind, name, int(place) if place else None
