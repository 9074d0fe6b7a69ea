"""The values of a YAML text with their places, from PyYAML's events: nothing is constructed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hpushim.engine.base.text import Offsets
from hpushim.engine.data.entries import DEPTH, Entry
from hpushim.model import Span

_PROPERTIES = re.compile(r"(?:[&!][^\s]*\s+)+")
_BASIC = (str, bool, int, float)


@dataclass(slots=True)
class _Level:
    """One open mapping or sequence."""

    path: tuple[str | int, ...]
    start: int
    key_span: Span | None
    mapping: bool
    place: int  # where its own entry goes
    count: int = 0
    pending: tuple[str, Span | None] | None = field(default=None)


def entries(text: str) -> tuple[Entry, ...]:
    """Every value of every document in source order; ValueError says why the text is no YAML."""
    import yaml

    # libyaml's parser gives the same events in a tenth of the time; at the same places but for a mark of the byte order in front.
    quick = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader = yaml.SafeLoader if text.startswith("\ufeff") else quick
    try:
        return tuple(_Reader(text).read(yaml.parse(text, Loader=loader)))
    except yaml.MarkedYAMLError as error:
        place = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{place}") from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.span = Offsets(text).span
        self.found: list[Entry | None] = []
        self.levels: list[_Level] = []
        self.document = -1

    def read(self, events: Any) -> list[Entry]:
        for event in events:
            name = event.__class__.__name__
            if name == "DocumentStartEvent":
                self.document += 1
            elif name in ("MappingStartEvent", "SequenceStartEvent"):
                if len(self.levels) == DEPTH:
                    raise ValueError("nested too deeply")
                path, key = self._next(None)
                self.levels.append(
                    _Level(path, event.start_mark.index, key, name[0] == "M", len(self.found))
                )
                self.found.append(None)
            elif name in ("MappingEndEvent", "SequenceEndEvent"):
                level = self.levels.pop()
                self.found[level.place] = Entry(
                    path=level.path,
                    kind="mapping" if level.mapping else "sequence",
                    span=self.span(level.start, event.end_mark.index),
                    key=level.key_span,
                    value=None,
                    document=self.document,
                )
            elif name == "ScalarEvent":
                self._scalar(event)
            elif name == "AliasEvent":
                self._next(("*", None))
        return [entry for entry in self.found if entry is not None]

    def _next(
        self, key: tuple[str, Span | None] | None
    ) -> tuple[tuple[str | int, ...], Span | None]:
        """The way to the node that begins now; a node in key position becomes the pending key."""
        if not self.levels:
            return (), None
        level = self.levels[-1]
        if not level.mapping:
            level.count += 1
            return (*level.path, level.count - 1), None
        if level.pending is None:
            level.pending = key or ("?", None)
            return (*level.path, "?"), None
        name, span = level.pending
        level.pending = None
        return (*level.path, name), span

    def _scalar(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if event.anchor or event.tag:
            lead = _PROPERTIES.match(self.text, start, end)
            start = lead.end() if lead else start
        span = self.span(start, end)
        level = self.levels[-1] if self.levels else None
        is_key = level is not None and level.mapping and level.pending is None
        path, key = self._next((event.value, span))
        if is_key:
            return
        style = event.style or ""
        value: Any = event.value
        if not style and not event.tag:
            value = _resolved(event.value)
        self.found.append(
            Entry(
                path=path,
                kind="scalar",
                span=span,
                key=key,
                value=value if value is None or isinstance(value, _BASIC) else event.value,
                quote=style,
                document=self.document,
            )
        )


@cache
def _loader() -> Any:
    import yaml

    return yaml.SafeLoader("")


def _resolved(value: str) -> object:
    """What a plain scalar means."""
    import yaml

    loader = _loader()
    tag = loader.resolve(yaml.ScalarNode, value, (True, False))
    if tag == "tag:yaml.org,2002:str":
        return value
    try:
        return loader.construct_object(yaml.ScalarNode(tag, value))
    except (yaml.YAMLError, ValueError, AttributeError):
        return value
