"""The lines of a requirements file with their places."""

from __future__ import annotations

import re

from hpushim.engine.shell.words import Requirement
from hpushim.model import Span

_LINE = re.compile(rb"(?:[^\r\n\\]|\\(?:\r\n|\n|\r|[^\r\n])|\\$)*(?:\r\n|\r|\n|$)")
_COMMENT = re.compile(rb"(?:^|(?<=[ \t]))#")
_OPTION = re.compile(
    rb"(-[A-Za-z]|--[a-z][a-z-]*)(?:[ \t]*=[ \t]*|[ \t]+|(?=[\"']))?(.*)", re.DOTALL
)
_NAME = re.compile(rb"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(?:\[[^\]]*\])?[ \t]*")
_SPECIFIER = re.compile(
    rb"\(?((?:===|[~=!<>]=|[<>])[ \t]*[^;#\\\s)](?:[^;#\\)]*?[^;#\\\s)])??)\)?(?=[ \t]*(?:;|$|\\)|[ \t]+--)"
)
_WHEEL = re.compile(rb"([A-Za-z0-9._]+?)-\d[^/]*\.(?:whl|tar\.gz|zip)(?:$|[?#])")
_EGG = re.compile(rb"[#&]egg=([A-Za-z0-9._-]+)")
_REPOSITORY = re.compile(rb"^git\+\S+?/([A-Za-z0-9._-]+?)(?:\.git)?/?(?:[@#?]\S*)?$")
_URL = re.compile(rb"(?:[a-z]+\+)?[a-z]+://\S+|\.{0,2}/\S+|\S+\.whl\b")


def requirements(text: str) -> tuple[Requirement, ...]:
    """Every line that requests something; blank lines and comments are none."""
    data = text.encode()
    found: list[Requirement] = []
    at = 0
    while at < len(data):
        match = _LINE.match(data, at)
        end = match.end() if match and match.end() > at else len(data)
        item = _line(data, at, end)
        if item is not None:
            found.append(item)
        at = end
    return tuple(found)


def _line(data: bytes, start: int, end: int) -> Requirement | None:
    body = data[start:end]
    comment = _COMMENT.search(body)
    if comment:
        body = body[: comment.start()]
    stripped = body.strip()
    if not stripped:
        return None
    first = start + body.index(stripped)
    span, line = Span(first, first + len(stripped)), Span(start, end)
    if stripped.startswith(b"-"):
        return _option(stripped, span, line)
    url = _URL.match(stripped)
    if url:
        return _by_url(stripped, span, line)
    name = _NAME.match(stripped)
    if name is None:
        return Requirement(span, line, url=stripped.decode(errors="replace"))
    rest = name.end()
    direct = re.compile(rb"@[ \t]*(\S+)").match(stripped, rest)
    specifier = _SPECIFIER.match(stripped, rest)
    return Requirement(
        span=span,
        line=line,
        name=_normal(name.group(1)),
        name_span=Span(first + name.start(1), first + name.end(1)),
        specifier=specifier.group(1).decode(errors="replace") if specifier else "",
        specifier_span=(
            Span(first + specifier.start(1), first + specifier.end(1)) if specifier else None
        ),
        url=direct.group(1).decode(errors="replace") if direct else "",
    )


def _by_url(stripped: bytes, span: Span, line: Span) -> Requirement:
    named = (
        _EGG.search(stripped)
        or _WHEEL.search(stripped.rpartition(b"/")[2])
        or _REPOSITORY.match(stripped)
    )
    name = _normal(named.group(1)) if named else ""
    return Requirement(span, line, name=name, url=stripped.decode(errors="replace"))


def _option(stripped: bytes, span: Span, line: Span) -> Requirement:
    match = _OPTION.match(stripped)
    if match is None:
        return Requirement(span, line, option=stripped.decode(errors="replace"))
    option = match.group(1).decode()
    value = match.group(2).strip()
    at = span.start + match.start(2)
    egg = _EGG.search(value)
    return Requirement(
        span=span,
        line=line,
        name=_normal(egg.group(1)) if egg else "",
        url=value.decode(errors="replace") if option in ("-e", "--editable") else "",
        option=option,
        value=value.decode(errors="replace"),
        value_span=Span(at, at + len(value)) if value else None,
    )


def _normal(name: bytes) -> str:
    return re.sub(r"[-_.]+", "-", name.decode(errors="replace")).lower()
