"""The shim as a whole: activates, deactivates, answers for its state. One per process."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from hpushim import settings
from hpushim.shim import cuda_names, detect, log, mechanisms
from hpushim.shim.detect import Decision
from hpushim.shim.imports import blocked, stand_ins
from hpushim.shim.imports.waiter import waiter
from hpushim.shim.mechanisms import in_place
from hpushim.shim.patch import Patch, declared
from hpushim.shim.run import cells, children, import_hook

_lock = threading.RLock()


class Session:
    """What is patched at the moment, in the order it was done."""

    def __init__(self) -> None:
        self.decision: Decision | None = None
        self.active = False
        self.applied: list[tuple[Patch, in_place.Undo]] = []
        self.deferred: list[Patch] = []
        self.missing: list[str] = []
        self.sticky: list[str] = []
        self.holds = 0
        self.native_blocks = 0
        self.resume = False

    def activate(self) -> bool:
        """Decides and patches; True when torch is patched now. A second call changes nothing.

        Inside a block of native() it takes effect when the block ends, as deactivate() does.
        Raises HpushimError when the environment requests a device that cannot be had.
        """
        with _lock:
            if self.active or self.holds:
                return self.active
            if self.native_blocks:
                self.resume = True
                return False
            said, self.decision = self.decision, detect.decide()
            if not self.decision.quiet:
                _check_settings()
            decision = self.decision
            if decision.on:
                self._patch()
                log.start(self._start_line(decision))
                if log.wants_summary():
                    from hpushim.shim import summary

                    summary.at_exit()
                import_hook.name_loaded()
            elif not decision.quiet and decision != said:
                native = (
                    "an emulated HPU, with no CUDA call redirected" if decision.device else "off"
                )
                log.start(f"{native}: {decision.reason}")
            return decision.on

    def deactivate(self) -> None:
        """Puts back everything, last change first. What others have changed since is left and listed as sticky."""
        with _lock:
            waiter.forget()
            self.resume = False
            while self.applied:
                patch, undo = self.applied.pop()
                if not undo():
                    self.sticky.append(patch.target)
            self.deferred.clear()
            self.active = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A block in which activate() does nothing: torch's entry point fires while torch is imported."""
        self.holds += 1
        try:
            yield
        finally:
            self.holds -= 1

    @contextlib.contextmanager
    def native(self) -> Iterator[None]:
        """Torch as it is without the shim, for the whole process, until the block ends."""
        with _lock:
            if not self.native_blocks:
                active = self.active
                self.deactivate()
                self.resume = active
            self.native_blocks += 1
        try:
            yield
        finally:
            with _lock:
                self.native_blocks -= 1
                if self.resume and not self.native_blocks:
                    self.resume = False
                    self._go_on()

    def _go_on(self) -> None:
        if self.decision is None or not self.decision.on:
            self.activate()
            return
        self._patch()

    def status(self) -> dict[str, Any]:
        """The decision and the state of every patch, as plain data."""
        with _lock:
            decision = self.decision
            return {
                "active": self.active,
                "device": decision.device if decision else None,
                "reason": decision.reason if decision else "torch has not been imported yet",
                "patches": [patch.target for patch, _ in self.applied],
                "waiting": sorted({patch.target for patch in self.deferred}),
                "missing": list(self.missing),
                "sticky": list(self.sticky),
                "notes": log.fired(),
                "unhandled_cuda": log.unhandled_calls(),
            }

    def ledger(self) -> dict[str, Any]:
        """The emulator's ledger of this process, and the CUDA calls that had no answer."""
        return {**detect.emulator_ledger(), "unhandled_cuda": log.unhandled_calls()}

    def _patch(self) -> None:
        import torch

        version = _release(torch.__version__)
        self.missing.clear()
        self.sticky.clear()
        self.active = True
        late: dict[str, list[Patch]] = {}
        for patch in declared():
            if not patch.applies_to(version):
                continue
            if patch.module in sys.modules:
                self._apply(patch, sys.modules[patch.module])
            else:
                late.setdefault(patch.module, []).append(patch)
                self.deferred.append(patch)
        for name, patches in late.items():
            waiter.wait_for(name, self._on_import(patches))
        self.applied.append((_CUDA_NAMES, cuda_names.install()))
        self.applied.append((_BLOCKED, blocked.install()))
        self.applied.append((_STAND_INS, stand_ins.install()))
        import_hook.install(rewriting=import_hook.is_inherited())
        self.applied.append((_IMPORT_HOOK, _no_longer_naming))
        for patch, install in ((_CHILDREN, children.install), (_CELLS, cells.install)):
            undo = install()
            if undo is not None:
                self.applied.append((patch, undo))
        in_place.keep_templates()

    def _on_import(self, patches: list[Patch]) -> Callable[[Any], None]:
        def apply_now(module: Any) -> None:
            with _lock:
                for patch in patches:
                    if self.active and patch in self.deferred:
                        self.deferred.remove(patch)
                        self._apply(patch, module)

        return apply_now

    def _apply(self, patch: Patch, module: Any) -> None:
        try:
            undo = mechanisms.apply(patch, module)
        except in_place.MissingTarget:
            if not patch.optional:
                self.missing.append(patch.target)
                log.warn("HPU907", f"this torch has no {patch.target}, so hpushim cannot patch it")
            return
        if undo is not None:
            self.applied.append((patch, undo))

    def _start_line(self, decision: Decision) -> str:
        kind = "an emulated HPU" if decision.device == "emulated" else "HPU"
        return f"CUDA calls run on {kind} ({decision.reason})"


session = Session()

_BLOCKED = Patch("import", "blocked", "hook", "packages", "approximate", blocked.install)
_STAND_INS = Patch("import", "stand-ins", "hook", "packages", "approximate", stand_ins.install)
_IMPORT_HOOK = Patch("import", "own modules", "hook", "import", "exact", import_hook.install)
_CHILDREN = Patch("os", "environ", "hook", "PYTHONPATH", "exact", children.install)
_CELLS = Patch("IPython", "ast_transformers", "hook", "cells", "exact", cells.install)
_CUDA_NAMES = Patch("torch.cuda", "*", "hook", "torch.cuda", "approximate", cuda_names.install)


def _no_longer_naming() -> bool:
    import_hook.uninstall(naming_only=True)
    return True


def _check_settings() -> None:
    """Raises HpushimError for a value of HPUSHIM_… that means nothing; names a variable that nobody reads."""
    settings.check()
    for name in settings.unknown():
        log.start(f"{name} is set, but hpushim has no such setting{settings.nearest(name)}")


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int("".join(ch for ch in minor if ch.isdigit()) or 0)
