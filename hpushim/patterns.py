"""Regular expressions that are compiled when they are first used: those of all modules together are a tenth of a cold start."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


def lazily(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The same as ``re.compile``, at the first use. Not for the functions of ``re`` that take a compiled one."""
    return cast("re.Pattern[AnyStr]", _Pattern(pattern, flags))


class _Pattern:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """What is not kept yet: looked up once for each method."""
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = self.__dict__.get("_compiled")
        if compiled is None:
            compiled = self._compiled = re.compile(self.pattern, self._flags)
        found = self.__dict__[name] = getattr(compiled, name)
        return found
