"""Counts words that docs/glossary.md replaces: in documents, messages, docstrings, comments and names of functions and classes.

What is left was reviewed: keys of files, classes of a style sheet, "stand-in".

python tests/wording.py              # lists each use
python tests/wording.py --tighten    # writes today's counts to tests/wording.json, where they went down
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs/glossary.md"
ALLOWED = ROOT / "tests/wording.json"
#: Documents that people read, and the table whose notes are shown to them.
TEXTS = ("*.md", "docs/*.md", "codemods/*.md", "codemods/*/*.md", "compat_matrix.toml", "*.yml", ".github/**/*.yml")  # fmt: skip
#: Made from the texts above, or from messages.
GENERATED = ("MATRIX.md", "codemods/README.md", "docs/commands.md")
CODE = ("hpushim/**/*.py", "codemods/**/*.py")
_FENCE = re.compile(r"(?ms)^(`{3,}).*?^\1[ \t]*$")


class Use(NamedTuple):
    """A replaced word at a place."""

    path: str
    line: int
    word: str
    kind: str = "text"


@cache
def replaced() -> tuple[str, ...]:
    """The words in the last column of the glossary's tables."""
    rows = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]  # fmt: skip
    return tuple(sorted({word for row in rows for word in re.findall(r"`([\w-]+)`", row.rsplit("|", 2)[1])}))  # fmt: skip


def uses() -> Iterator[Use]:
    """Every use of a replaced word, but those in the glossary."""
    plain = re.compile(rf"\b({'|'.join(replaced())})\b", re.IGNORECASE)
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if path != GLOSSARY and name not in GENERATED and not name.startswith("."):
                yield from _in(path.read_text(encoding="utf-8"), name, plain)
    for pattern in CODE:
        for path in sorted(ROOT.glob(pattern)):
            yield from _in_code(path, plain)


def _in(text: str, name: str, plain: re.Pattern[str]) -> Iterator[Use]:
    """Uses in prose: code of other people may say what it likes."""
    prose = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text) if name.endswith(".md") else text  # fmt: skip
    for number, line in enumerate(prose.splitlines(), 1):
        if not line.lstrip().startswith("#") or name.endswith(".md"):
            yield from (Use(name, number, found.lower()) for found in plain.findall(line))


def _in_code(path: Path, plain: re.Pattern[str]) -> Iterator[Use]:
    """Uses in texts (messages, help), in docstrings, comments and names that a module defines."""
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            kind = "docstring" if id(node) in bare else "text"
            yield from (Use(name, node.lineno, found.lower(), kind) for found in plain.findall(node.value))  # fmt: skip
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", node.name)}
            yield from (Use(name, node.lineno, word) for word in words & set(replaced()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from (Use(name, token.start[0], found.lower(), "comment") for found in plain.findall(token.string))  # fmt: skip


def counts() -> dict[str, int]:
    """Group → number of uses: each document, all pages of rules, all code (which moves between files), all docstrings, the matrix."""
    found: dict[str, int] = {}
    for use in uses():
        group = _group(use)
        found[group] = found.get(group, 0) + 1
    return dict(sorted(found.items()))


def _group(use: Use) -> str:
    if use.path.endswith(".py"):
        return {"docstring": "docstrings", "comment": "comments"}.get(use.kind, "code")
    return "rule pages" if use.path.startswith("codemods/") else use.path


def allowed() -> dict[str, int]:
    """Group → the most uses that it may have."""
    return dict(json.loads(ALLOWED.read_text(encoding="utf-8")))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tighten", action="store_true", help="lower the counts in tests/wording.json")  # fmt: skip
    if parser.parse_args().tighten:
        now, before = counts(), allowed() if ALLOWED.exists() else None
        kept = now if before is None else {p: min(n, before[p]) for p, n in now.items() if p in before}  # fmt: skip
        ALLOWED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{sum(now.values())} uses, {sum(kept.values())} allowed")
        return 0
    for use in uses():
        print(f"{use.path}:{use.line}: {use.word}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
