"""Lists every text that hpushim shows, in one file that can be read as a text: tests/messages.txt.

python tests/messages.py             # writes the file
python tests/messages.py --long      # lists the sentences above 25 words
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests/messages.txt"
CODE = ("codemods/**/*.py", "hpushim/**/*.py")
#: What the emulated HPU says in the words of the vendor's package.
NOT_OURS = "hpushim/emulator/site/"
#: A text has this many words; fewer are labels and parts.
_LEAST = 4
LONGEST = 25
#: So many sentences are longer; the number only goes down.
LONG = 2
_WORD = re.compile(r"(?<!\S)[`(]?[A-Za-z][\w'-]*[`),.;:]*(?!\S)")
#: Patterns, templates of code and tables are no texts.
_NO_TEXT = re.compile(
    r"\(\?|\\[bswd]|^\s*(?:def|class|import|from|if|for|#include|CREATE|SELECT)\b|\\n *\w+ = "
)
_SENTENCE = re.compile(r"(?<=[.;:!?])\s+")


def words(text: str) -> list[str]:
    """The words of a text: names of code with dots, numbers and symbols are none."""
    return _WORD.findall(text)


def texts(path: Path) -> Iterator[str]:
    """The texts in a module, in their order, with ``{expression}`` for what a run fills in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node}  # fmt: skip
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        if id(node) not in inside | bare
    ]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
        text = " ".join(_shown(node).split())
        if len(words(text)) >= _LEAST and not _NO_TEXT.search(text):
            yield text


def _shown(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr)
    return "".join(
        f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else _shown(part)
        for part in node.values
    )


def modules() -> Iterator[tuple[str, list[str]]]:
    """Module → its texts, and the codes that it declares."""
    for pattern in CODE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(NOT_OURS) and (found := list(dict.fromkeys(texts(path)))):
                yield name, found


def listed() -> str:
    """What tests/messages.txt holds."""
    parts = [f"{name}\n" + "".join(f"    {text}\n" for text in found) for name, found in modules()]
    return "\n".join(parts)


def long() -> Iterator[tuple[str, int, str]]:
    """Sentences above the limit: module, words, sentence."""
    for name, found in modules():
        for text in found:
            for sentence in _SENTENCE.split(text):
                if (size := len(words(sentence))) > LONGEST:
                    yield name, size, sentence


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--long", action="store_true", help="list the sentences above 25 words")
    if parser.parse_args().long:
        for name, size, sentence in long():
            print(f"{name}: {size}: {sentence}")
        return 0
    LIST.write_text(listed(), encoding="utf-8")
    print(f"{LIST.relative_to(ROOT)}: {sum(len(found) for _, found in modules())} texts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
