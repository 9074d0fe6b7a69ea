"""The errors that hpushim raises on purpose: each says what was found, what was expected, what to do next."""

from __future__ import annotations


class HpushimError(Exception):
    """Base of every error that is the user's to fix; the command line prints it in one line, exit code 2."""


class MatrixError(HpushimError):
    """The compatibility matrix, or a user's own rows, cannot be used."""


class EmulatorError(HpushimError):
    """The emulated HPU cannot be built or loaded on this machine."""


class UnsupportedOnHpu(HpushimError, RuntimeError):
    """A CUDA call that has no meaning on Gaudi; the message carries its HPU code and the alternative."""


class HpushimWarning(UserWarning):
    """A CUDA call that was answered with something close to, but not the same as, what CUDA does."""
