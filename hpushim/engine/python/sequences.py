"""Items taken out of libcst's lists: arguments, elements, imported names, small statements.

What separates items belongs to the item before: an item goes with its comma, and the one that comes to be
last takes over how the list ended. A line that ended behind an item still ends there, and comments over the next one stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpushim.engine.python.slots import Unplaced


def without(node: Any, field: str, gone: Sequence[int]) -> Any:
    """``node`` without some of the items in one of its fields."""
    items = list(getattr(node, field))
    if field == "decorators":
        return node.with_changes(
            decorators=[item for at, item in enumerate(items) if at not in gone]
        )
    kept, changes = _joined(node, items, gone)
    if kept and len(items) - 1 in gone:
        kept[-1] = _last(kept[-1], items[-1])
    changes[field] = kept
    if not kept:
        changes.update(_emptied(node, field))
    return node.with_changes(**changes)


def _last(item: Any, before: Any) -> Any:
    """An item that comes to be where ``before`` stood, at the end of a list."""
    import libcst as cst

    if isinstance(item, cst.BaseSmallStatement):
        return item.with_changes(semicolon=before.semicolon)
    comma = before.comma
    note = _comment(item.comma)
    changes: dict[str, Any] = {}
    after = getattr(before, "whitespace_after_arg", None)
    if note:
        # The comment on its line stays, and so does the comma before it.
        end = comma.whitespace_after if isinstance(comma, cst.Comma) else after
        white = item.comma.whitespace_after
        if isinstance(end, cst.ParenthesizedWhitespace):
            white = white.with_changes(
                indent=end.indent, last_line=end.last_line, empty_lines=end.empty_lines
            )
        changes["comma"] = item.comma.with_changes(whitespace_after=white)
    else:
        changes["comma"] = comma
        if after is not None:
            changes["whitespace_after_arg"] = after
    return item.with_changes(**changes)


def _joined(node: Any, items: list[Any], gone: Sequence[int]) -> tuple[list[Any], dict[str, Any]]:
    """The items that stay, each followed by the line break and comments before the one after it."""
    kept: list[Any] = []
    changes: dict[str, Any] = {}
    passed: list[Any] = []
    for place, item in enumerate(items):
        if place in gone:
            passed.append(getattr(item, "comma", None))
            continue
        whites = [comma.whitespace_after for comma in passed if comma is not None]
        if whites and not kept:
            before = getattr(node, "whitespace_before_args", None)
            if before is not None:
                changes["whitespace_before_args"] = _gap([before, *whites])
        elif whites:
            comma = kept[-1].comma
            white = _gap([comma.whitespace_after, *whites])
            kept[-1] = kept[-1].with_changes(comma=comma.with_changes(whitespace_after=white))
        kept.append(item)
        passed = []
    return kept, changes


def _gap(whites: Sequence[Any]) -> Any:
    """One space for those around items that go: comments on lines of their own and the last line break stay."""
    import libcst as cst

    broken = [white for white in whites if isinstance(white, cst.ParenthesizedWhitespace)]
    if not broken:
        return whites[0]
    if broken[0] is not whites[0] and len(broken) == 1:
        return broken[0]
    above = [line for white in broken[1:] for line in white.empty_lines if line.comment]
    lines = [*broken[0].empty_lines, *above]
    last = broken[-1]
    return broken[0].with_changes(empty_lines=lines, indent=last.indent, last_line=last.last_line)


def _comment(comma: Any) -> bool:
    line = getattr(getattr(comma, "whitespace_after", None), "first_line", None)
    return getattr(line, "comment", None) is not None


def _emptied(node: Any, field: str) -> dict[str, Any]:
    import libcst as cst

    match field:
        case "args":
            return {"whitespace_before_args": cst.SimpleWhitespace("")}
        case "elements" | "bases" | "keywords":
            return {}
    raise Unplaced(f"nothing is left of {field}")
