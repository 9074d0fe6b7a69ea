"""The instructions of a Dockerfile with their places: continuation lines, heredocs, both forms of RUN."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hpushim.engine.base.text import blank
from hpushim.engine.shell import shell
from hpushim.engine.shell.words import Assignment, Instruction, Script, Word
from hpushim.model import Span

_ESCAPE = re.compile(rb"^#[ \t]*escape[ \t]*=[ \t]*([\\`])", re.IGNORECASE | re.MULTILINE)
_KEYWORD = re.compile(rb"[ \t]*([A-Za-z]+)(?=[ \t\r\n]|$)")
_COMMENT = re.compile(rb"[ \t]*#")
_HEREDOC = re.compile(rb"<<(-?)(['\"]?)([A-Za-z_][\w.]*)\2")
_WORD = re.compile(rb"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s\"'\\])+", re.DOTALL)
_SHELL = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK"})
_PAIRS = frozenset({"ENV", "ARG", "LABEL"})


def instructions(text: str) -> tuple[Instruction, ...]:
    """Every instruction in source order; lines that are none are passed over."""
    data = text.encode()
    found: list[Instruction] = []
    stage = -1
    for keyword, span, arguments in _split(data):
        if keyword == "FROM":
            stage += 1
        found.append(_instruction(data, keyword, span, arguments, stage))
    return tuple(found)


def _split(data: bytes) -> Iterator[tuple[str, Span, Span]]:
    """Keyword, whole instruction, arguments."""
    escape = _ESCAPE.match(data)
    mark = escape.group(1) if escape else b"\\"
    lines = [Span(m.start(), m.end()) for m in re.finditer(rb"[^\n]*\n|[^\n]+", data)]
    number = 0
    while number < len(lines):
        line = data[lines[number].start : lines[number].end]
        keyword = _KEYWORD.match(line)
        if _COMMENT.match(line) or not keyword:
            number += 1
            continue
        first = lines[number].start
        last = number
        while last + 1 < len(lines) and _continues(data[lines[last].start : lines[last].end], mark):
            last += 1
        # Comment lines inside an instruction do not end it.
        while (
            last + 1 < len(lines)
            and last > number
            and _COMMENT.match(data[lines[last].start : lines[last].end])
        ):
            last += 1
            while last + 1 < len(lines) and _continues(
                data[lines[last].start : lines[last].end], mark
            ):
                last += 1
        last = _heredocs(data, lines, first, last)
        end = lines[last].start + len(data[lines[last].start : lines[last].end].rstrip())
        name = keyword.group(1).decode().upper()
        start = first + keyword.end()
        yield name, Span(first + keyword.start(1), max(end, start)), Span(start, max(end, start))
        number = last + 1


def _continues(line: bytes, mark: bytes) -> bool:
    return line.rstrip().endswith(mark)


def _heredocs(data: bytes, lines: list[Span], first: int, last: int) -> int:
    """The line on which the last heredoc that the instruction opens ends."""
    keyword = _KEYWORD.match(data, first)
    if keyword is None or keyword.group(1).upper() not in (b"RUN", b"COPY", b"ADD"):
        return last
    for opened in _HEREDOC.finditer(data, first, lines[last].end):
        place = last + 1
        while place < len(lines):
            line = data[lines[place].start : lines[place].end].rstrip(b"\r\n")
            if (line.lstrip(b"\t") if opened.group(1) else line) == opened.group(3):
                last = place
                break
            place += 1
    return last


def _instruction(data: bytes, keyword: str, span: Span, arguments: Span, stage: int) -> Instruction:
    json_form = _json_words(data, arguments) if keyword in _SHELL else None
    if json_form is not None:
        return Instruction(keyword, span, json_form, stage=stage)
    if keyword in _SHELL:
        script = _script(data, arguments)
        words = script.commands[0].words if script.commands else ()
        return Instruction(keyword, span, words, script=script, stage=stage)
    words = tuple(_words(data, arguments))
    pairs = _pairs(data, arguments, words) if keyword in _PAIRS else ()
    return Instruction(keyword, span, words, pairs, stage=stage)


def _script(data: bytes, arguments: Span) -> Script:
    """The shell text of RUN, with what is not shell in it blanked so that places stay right."""
    inside = bytearray(data[arguments.start : arguments.end])
    if not _HEREDOC.search(inside):
        for comment in re.finditer(rb"(?m)(?<=\n)[ \t]*#[^\n]*", bytes(inside)):
            # It is between continuation lines: a shell would end the command here.
            length = comment.end() - comment.start()
            inside[comment.start() : comment.end()] = b" " * (length - 1) + b"\\"
    body = bytes(inside)
    flags = re.match(rb"(?:[ \t]*--[a-z]+=\S+)+", body)
    if flags:
        body = b" " * flags.end() + body[flags.end() :]
    heredoc = re.match(rb"[ \t]*<<-?['\"]?\w+['\"]?[^\n]*\n", body)
    if heredoc:
        body = blank(heredoc.group(), returns=False) + body[heredoc.end() :]
        tail = body.rfind(b"\n") + 1
        body = body[:tail] + b" " * (len(body) - tail)
    return shell.script(body, arguments.start)


def _json_words(data: bytes, arguments: Span) -> tuple[Word, ...] | None:
    body = data[arguments.start : arguments.end]
    if not body.lstrip().startswith(b"["):
        return None
    try:
        values = json.loads(body)
    except ValueError:
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    spans = [m.span() for m in re.finditer(rb'"(?:[^"\\]|\\.)*"', body)]
    found: list[Word] = []
    for (start, end), text in zip(spans, values, strict=True):
        span = Span(arguments.start + start, arguments.start + end)
        found.append(Word(span, text, True, Span(span.start + 1, span.end - 1)))
    return tuple(found)


def _words(data: bytes, arguments: Span) -> Iterator[Word]:
    for match in _WORD.finditer(data, arguments.start, arguments.end):
        raw = match.group()
        if raw.strip() not in (b"\\", b"`", b""):
            yield _plain(Span(match.start(), match.end()), raw)


def _plain(span: Span, raw: bytes) -> Word:
    text = raw.decode(errors="replace")
    inner = span
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        inner, text = Span(span.start + 1, span.end - 1), text[1:-1]
    return Word(span, text, "$" not in text, inner)


def _pairs(data: bytes, arguments: Span, words: tuple[Word, ...]) -> tuple[Assignment, ...]:
    found: list[Assignment] = []
    if words and "=" not in words[0].text:
        # `ENV NAME the rest`, and `ARG NAME` without a value.
        name = words[0]
        if len(words) == 1:
            return (Assignment(name.span, name.text, name.span, None, True),)
        span = Span(words[1].span.start, arguments.end)
        value = _plain(span, data[span.start : span.end])
        return (Assignment(Span(name.span.start, span.end), name.text, name.span, value, True),)
    for word in words:
        raw = data[word.span.start : word.span.end]
        head, equals, rest = raw.partition(b"=")
        at = word.span.start + len(head)
        own = _plain(Span(at + 1, word.span.end), rest) if equals else None
        name_text = head.decode(errors="replace").strip("\"'")
        found.append(Assignment(word.span, name_text, Span(word.span.start, at), own, True))
    return tuple(found)
