"""How a patch is declared: one decorator; the mechanisms that apply and undo it live elsewhere.

A patch file is any module in ``hpushim/shim/patches``; it is found by itself, so a new file needs no
registration. It holds replacements only, never imports torch at its top (it is read before the
decision to patch at all), and looks like this::

    from hpushim.shim import devices, log
    from hpushim.shim.patch import APPROXIMATE, EXACT, patch

    @patch("torch.cuda:synchronize", level=EXACT)
    def synchronize(original, device=None):
        import torch
        torch.hpu.synchronize()

    @patch("torch.cuda:memory_reserved", "torch.cuda:memory_cached", level=APPROXIMATE,
           code="HPU401", note="Gaudi reports allocated memory only")
    def memory_reserved(original, *args, **kwargs): ...

**Target.** ``"module:attribute"`` or ``"module:Class.attribute"``. The module is never imported for a
patch: when it is not loaded yet, the patch is applied at the moment it gets imported. A target that
does not exist gives one clear warning, unless the running torch lies outside ``since``/``until``
(both like ``"2.8"``; ``until`` is the first release without the target) or ``optional`` is set.
An entry point that is itself replaced by a user is left alone when the patch is undone.

**Mechanism** (``how``; every one is undone by ``deactivate``):

``"function"``  A function or method that exists: the same object does something else, so every name that holds it
                sees the patch. Written in Python, its ``__code__`` is exchanged for one with the same parameters
                (those with a default reach the replacement by name, if another value was given); written in C,
                the word through which CPython calls it. The default.
``"getter"``    A property; the replacement is called with ``(original, self)``, where ``original(self)`` reads the
                attribute as torch would. In place as well.
``"value"``     The replacement is called once, with the current value, and returns the new one.
                For module attributes that are not functions. A missing attribute arrives as ``MISSING``.
``"constructor"`` The ``tp_new`` slot of a C type: called with ``(original, cls, *args, **kwargs)``.
``"hook"``      No target is touched: the replacement is called once with no arguments when the shim
                goes on and returns a function that undoes what it did (or None: nothing to undo).
                The target only says which module it waits for (``"torch"``: at once).

Every ``function`` replacement is called as ``replacement(original, *args, **kwargs)``; it must
take what the original takes and hand on what it does not know (``*args, **kwargs``), never restate a
signature of torch. ``factory=True`` instead calls ``replacement(original)`` once and installs what it
returns: one call less, for hot methods.

**Row.** Each target answers the compatibility-matrix row of its own dotted name (``torch.cuda.synchronize``; a class's
``__init__``, ``__enter__`` and so on answer the class's row). ``public="torch.distributed"`` says where users find a target that lives in
another module; ``row=`` names another row altogether. A row is answered by one patch file.

**Level.** ``EXACT``: the same meaning on HPU. ``APPROXIMATE``: close; say so once. ``WARN``: it works, but
the result or the speed may surprise. ``ERROR``: refused with ``UnsupportedOnHpu``; raise it with
``log.refuse(code, what, advice)``. With ``note`` set, the first call says ``code`` and ``note`` with the
user's file and line; for a note that depends on the arguments call ``log.note(code, text)`` in the
replacement instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

How = Literal["function", "getter", "value", "constructor", "hook"]
Level = Literal["exact", "approximate", "warn", "error"]

EXACT: Level = "exact"
APPROXIMATE: Level = "approximate"
WARN: Level = "warn"
ERROR: Level = "error"


class Missing:
    """The type of :data:`MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()
"""Marks an attribute that does not exist."""

F = TypeVar("F", bound=Callable[..., Any])


class Patch:
    """One replacement of one target, as declared; applying it is the mechanisms' business."""

    # Written out: a dataclass costs a tenth of the whole activation.
    def __init__(
        self,
        module: str,
        path: str,
        how: How,
        row: str,
        level: Level,
        replacement: Callable[..., Any],
        code: str = "",
        note: str = "",
        since: str = "",
        until: str = "",
        optional: bool = False,
        factory: bool = False,
    ) -> None:
        self.module = module
        self.path = path
        self.how = how
        self.row = row
        self.level = level
        self.replacement = replacement
        self.code = code
        self.note = note
        self.since = since
        self.until = until
        self.optional = optional
        self.factory = factory

    @property
    def target(self) -> str:
        """``module:attribute``, as it was declared."""
        return f"{self.module}:{self.path}" if self.path else self.module

    def applies_to(self, version: tuple[int, int]) -> bool:
        """Whether the target is expected in this torch release (major, minor)."""
        return (not self.since or version >= _release(self.since)) and (
            not self.until or version < _release(self.until)
        )


_declared: dict[str, list[Patch]] = {}


def patch(
    *targets: str,
    how: How = "function",
    level: Level,
    row: str = "",
    public: str = "",
    code: str = "",
    note: str = "",
    since: str = "",
    until: str = "",
    optional: bool = False,
    factory: bool = False,
) -> Callable[[F], F]:
    """Declares the decorated function as the replacement of each target; returns it unchanged.

    Raises ValueError for a target without a module, which is a mistake in the patch file.
    """

    def declare(replacement: F) -> F:
        for target in targets:
            module, colon, path = target.partition(":")
            if not module or (not colon and how != "hook"):
                raise ValueError(f"patch target {target!r}: expected 'module:attribute'")
            name = row or _name(public or module, path)
            _declared.setdefault(replacement.__module__, []).append(
                Patch(
                    module, path, how, name, level, replacement,
                    code, note, since, until, optional, factory,
                )
            )  # fmt: skip
        return replacement

    return declare


def declared() -> list[Patch]:
    """All patches of ``hpushim.shim.patches``, in the order of file name and line."""
    import importlib
    import pkgutil

    from hpushim.shim import patches

    names = sorted(module.name for module in pkgutil.iter_modules(patches.__path__))
    for name in names:
        importlib.import_module(f"{patches.__name__}.{name}")
    return [p for name in names for p in _declared.get(f"{patches.__name__}.{name}", ())]


def _name(module: str, path: str) -> str:
    parts = [module, *path.split(".")] if path else [module]
    if parts[-1].startswith("__"):
        parts.pop()
    return ".".join(parts)


def _release(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)
