"""The commands and assignments of a shell text, by tree-sitter's bash grammar."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from hpushim.engine.shell.words import Assignment, Command, Script, Word
from hpushim.model import Span

_WORDS = frozenset(
    [
        "word",
        "string",
        "raw_string",
        "number",
        "concatenation",
        "simple_expansion",
        "expansion",
        "ansi_c_string",
        "command_substitution",
        "process_substitution",
        "translated_string",
        "arithmetic_expansion",
        "brace_expression",
        "regex",
        "extglob_pattern",
    ]
)
_EXPANDED = frozenset(
    [
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "ansi_c_string",
        "arithmetic_expansion",
        "translated_string",
        "brace_expression",
    ]
)
#: ``DATA=<path of the data>``, ``--data <path>``, which somebody is to fill in: no redirection.
_TO_FILL = re.compile(rb"(?<=[=\s])<(?:\w[^\s<>()$`&|;]*|\w[^<>\n()$`&|;]*[A-Za-z_])>")
_ESCAPE = re.compile(r"\\(\r?\n|.)", re.DOTALL)


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def script(data: bytes, at: int = 0) -> Script:
    """Every simple command and assignment of a shell text, those in functions and substitutions too.

    ``at`` is where the text is in the file whose places are wanted.
    """
    filled = _TO_FILL.sub(lambda found: b"_" * len(found[0]), data)
    root = _parser().parse(filled).root_node
    commands: list[Command] = []
    assignments: list[Assignment] = []
    stack: list[tuple[Any, bool, Any]] = [(root, False, root)]
    while stack:
        node, exported, outer = stack.pop()
        kind = node.type
        if kind == "command" and not node.has_error:
            commands.append(_command(data, node, _span(outer)))
        elif kind == "variable_assignment" and not node.has_error:
            assignments.append(_assignment(data, node, exported))
        elif kind == "declaration_command":
            exported = bool(node.children) and node.children[0].type == "export"
        # What is not understood ends no statement: its parts are on their own.
        top = node is root or kind == "ERROR"
        stack += [(child, exported, child if top else outer) for child in reversed(node.children)]
    return Script(
        tuple(_moved_command(command, at) for command in commands) if at else tuple(commands),
        tuple(_moved_assignment(one, at) for one in assignments) if at else tuple(assignments),
        bool(root.has_error),
    )


def words(data: bytes, span: Span) -> tuple[Word, ...]:
    """The words of a piece of a command line, such as what a quoted ``OPTS="…"`` holds."""
    lead = b": "  # a command in front
    shift = span.start - len(lead)
    whole = lead + data[span.start : span.end]
    root = _parser().parse(whole).root_node
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command" and not node.has_error:
            found = [_word(whole, child) for child in node.children[1:] if child.type in _WORDS]
            return tuple(_shifted(word, shift) for word in found)
        stack += reversed(node.children)
    return ()


def _shifted(word: Word, shift: int) -> Word:
    return msgspec.structs.replace(
        word,
        span=_moved(word.span, shift),
        inner=_moved(word.inner, shift) if word.inner else None,
        value=_shifted(word.value, shift) if word.value else None,
    )


def _moved(span: Span, shift: int) -> Span:
    return Span(span.start + shift, span.end + shift)


def _moved_assignment(one: Assignment, shift: int) -> Assignment:
    return msgspec.structs.replace(
        one,
        span=_moved(one.span, shift),
        name_span=_moved(one.name_span, shift),
        value=_shifted(one.value, shift) if one.value else None,
        items=tuple(_shifted(word, shift) for word in one.items),
    )


def _moved_command(command: Command, shift: int) -> Command:
    return msgspec.structs.replace(
        command,
        span=_moved(command.span, shift),
        words=tuple(_shifted(word, shift) for word in command.words),
        assignments=tuple(_moved_assignment(one, shift) for one in command.assignments),
        outer=_moved(command.outer, shift) if command.outer else None,
    )


def _span(node: Any) -> Span:
    return Span(node.start_byte, node.end_byte)


def _command(data: bytes, node: Any, outer: Span) -> Command:
    found: list[Word] = []
    before: list[Assignment] = []
    for child in node.children:
        if child.type == "variable_assignment":
            before.append(_assignment(data, child, True))
        elif child.type == "command_name" and child.children:
            found.append(_word(data, child.children[0]))
        elif child.type in _WORDS:
            found.append(_word(data, child))
    return Command(_span(node), tuple(found), tuple(before), outer)


def _assignment(data: bytes, node: Any, exported: bool) -> Assignment:
    name = node.child_by_field_name("name") or node.children[0]
    value = node.child_by_field_name("value")
    items: tuple[Word, ...] = ()
    if value is not None and value.type == "array":
        items = tuple(_word(data, child) for child in value.children if child.type in _WORDS)
    return Assignment(
        span=_span(node),
        name=data[name.start_byte : name.end_byte].decode(errors="replace"),
        name_span=_span(name),
        value=_word(data, value) if value is not None and value.type in _WORDS else None,
        exported=exported,
        items=items,
    )


def _word(data: bytes, node: Any) -> Word:
    pieces = list(node.children) if node.type == "concatenation" else [node]
    made = [_piece(data, piece) for piece in pieces]
    text = "".join(word.text for word in made)
    constant = all(word.constant for word in made)
    inner = made[0].inner if len(made) == 1 else None
    if inner is None and all(word.inner == word.span for word in made):
        inner = _span(node)
    key, value = _option(data, pieces, made)
    return Word(_span(node), text, constant, inner, key, value)


def _option(data: bytes, pieces: list[Any], made: list[Word]) -> tuple[str, Word | None]:
    """``--name`` and the value's word for ``--name=value``, ``--name="value"``."""
    first = made[0]
    if first.inner is None or not first.constant or "=" not in first.text:
        return "", None
    raw = data[first.inner.start : first.inner.end].decode(errors="replace")
    if raw != first.text:
        return "", None
    key, _, rest = raw.partition("=")
    if not key.strip("-"):
        return "", None
    end = first.inner.end
    start = end - len(rest.encode())
    head = [Word(Span(start, end), rest, True, Span(start, end))] if rest else []
    parts = [*head, *made[1:]]
    if not parts:
        return key, Word(Span(end, end), "", True, Span(end, end))
    if len(parts) == 1:
        return key, parts[0]
    span = Span(parts[0].span.start, parts[-1].span.end)
    plain = all(part.inner == part.span for part in parts)
    constant = all(part.constant for part in parts)
    text = "".join(part.text for part in parts)
    return key, Word(span, text, constant, span if plain else None)


def _piece(data: bytes, node: Any) -> Word:
    span = _span(node)
    raw = data[span.start : span.end].decode(errors="replace")
    if node.type in _EXPANDED:
        return Word(span, raw, False, None)
    if node.type == "raw_string":
        return Word(span, raw[1:-1], True, Span(span.start + 1, span.end - 1))
    if node.type == "string":
        constant = not any(child.type in _EXPANDED for child in node.children)
        inside = raw[1:-1]
        text = re.sub(r'\\([$`"\\\n])', r"\1", inside) if constant else inside
        return Word(span, text, constant, Span(span.start + 1, span.end - 1))
    return Word(span, _ESCAPE.sub(_unescaped, raw), True, span)


def _unescaped(match: re.Match[str]) -> str:
    return "" if match.group(1).endswith("\n") else match.group(1)
