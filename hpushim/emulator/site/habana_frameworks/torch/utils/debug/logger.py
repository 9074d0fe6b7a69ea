"""The bridge's logger, on top of Python's."""

from __future__ import annotations

import logging

_LEVELS = {
    "trace": 5,
    "debug": 10,
    "info": 20,
    "warn": 30,
    "warning": 30,
    "err": 40,
    "error": 40,
    "critical": 50,
}


def get_log_level(logger_level):
    """Python's level for the bridge's name of one."""
    return _LEVELS[str(logger_level).lower()]


def enable_logging(logger_name, logger_level):
    """Set the level of a logger."""
    logging.getLogger(f"habana.{logger_name}").setLevel(get_log_level(logger_level))


def format_args(args):
    """The arguments in one string, spaces between."""
    return " ".join(str(one) for one in args)


class Logger:
    """Messages of one kind; with set_store_data(True) they are kept in ``data`` too."""

    def __init__(self, type):
        self._logger = logging.getLogger(f"habana.{type}")
        self._store = False
        self.data: list[str] = []

    def set_store_data(self, enable):
        """Keep messages, or stop to."""
        self._store = bool(enable)

    def log(self, level, args):
        """Log ``args`` at Python's ``level``."""
        message = format_args(args)
        if self._store:
            self.data.append(message)
        self._logger.log(level, "%s", message)

    def trace(self, *args):
        self.log(5, args)

    def debug(self, *args):
        self.log(logging.DEBUG, args)

    def info(self, *args):
        self.log(logging.INFO, args)

    def warn(self, *args):
        self.log(logging.WARNING, args)

    def error(self, *args):
        self.log(logging.ERROR, args)

    def critical(self, *args):
        self.log(logging.CRITICAL, args)
