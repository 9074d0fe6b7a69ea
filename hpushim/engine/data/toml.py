"""The values of a TOML text with their places, by tree-sitter's grammar. tomli says whether it is TOML and what values are."""

from __future__ import annotations

from functools import cache
from typing import Any

from hpushim.engine.data.entries import DEPTH, Entry
from hpushim.model import Span

Path = tuple[str | int, ...]


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_toml

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_toml.language()))


def entries(text: str) -> tuple[Entry, ...]:
    """Every value in source order; ValueError says why the text is no TOML."""
    import tomli

    tomli.loads(text)
    return tuple(_Reader(text.encode()).read())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.found: list[Entry] = []
        self.arrays: dict[Path, int] = {}

    def read(self) -> list[Entry]:
        root = _parser().parse(self.data).root_node
        if root.has_error:
            raise ValueError("the grammar does not accept it")
        for node in root.named_children:
            if node.type == "pair":
                self._pair(node, ())
            elif node.type in ("table", "table_array_element"):
                self._table(node)
        return self.found

    def _table(self, node: Any) -> None:
        head, *rest = [child for child in node.named_children if child.type != "comment"]
        path: Path = ()
        keys = self._keys(head)
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            if node.type == "table_array_element" and number == len(keys):
                self.arrays[path] = self.arrays.get(path, -1) + 1
            if path in self.arrays:
                path = (*path, self.arrays[path])
        for child in rest:
            self._pair(child, path)

    def _pair(self, node: Any, table: Path) -> None:
        key, value = (child for child in node.named_children if child.type != "comment")
        self._value(value, (*table, *self._keys(key)), _span(key))

    def _keys(self, node: Any) -> list[str]:
        """The parts of a key: ``a."b c".d``."""
        if node.type == "dotted_key":
            return [key for child in node.named_children for key in self._keys(child)]
        text = self._text(node)
        return [str(_scalar(text))] if node.type == "quoted_key" else [text]

    def _value(self, node: Any, path: Path, key: Span | None) -> None:
        if len(path) > DEPTH:
            raise ValueError("nested too deeply")
        if node.type not in ("array", "inline_table"):
            text = self._text(node)
            quote = next((mark for mark in ('"""', "'''", '"', "'") if text.startswith(mark)), "")
            value = _scalar(text)
            plain = value if isinstance(value, (str, bool, int, float)) else str(value)
            self.found.append(Entry(path, "scalar", _span(node), key, plain, quote))
            return
        parts = [child for child in node.named_children if child.type != "comment"]
        kind: Any = "sequence" if node.type == "array" else "mapping"
        self.found.append(Entry(path, kind, _span(node), key, None))
        for number, child in enumerate(parts):
            if kind == "mapping":
                self._pair(child, path)
            else:
                self._value(child, (*path, number), None)

    def _text(self, node: Any) -> str:
        return self.data[node.start_byte : node.end_byte].decode()


def _span(node: Any) -> Span:
    return Span(node.start_byte, node.end_byte)


def _scalar(text: str) -> Any:
    import tomli

    return tomli.loads(f"x = {text}")["x"]
