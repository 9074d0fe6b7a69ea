"""``hpushim run`` of a notebook: its code cells one after the other in this process, as ``__main__``.

What a cell's last expression gives is printed. Lines for the shell (``!``) and the magics that change nothing in what
is computed are understood; any other magic is refused before the first cell runs. Outputs are not kept.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from hpushim.errors import HpushimError

#: A cell's file name and bytes to its tree.
Parse = Callable[[str, bytes], ast.Module]

_FUNCTION = "__hpushim_cell__"
_LINE = re.compile(r"^(?P<indent>[ \t]*)(?P<sign>[!%])(?P<rest>.*)$")
#: Magics of a line and of a cell that are for the screen, or measure.
_NOTHING = frozenset(
    [
        *("matplotlib", "config", "load_ext", "reload_ext", "autoreload", "precision", "pylab"),
        *("xmode", "pinfo", "who", "whos"),
    ]
)
_AROUND = frozenset(["time", "capture"])
_SHELLS = frozenset(["bash", "sh"])


@dataclass(frozen=True)
class Cell:
    """One code cell: its number in the notebook, from 1, and its code as plain Python."""

    number: int
    source: str
    code: str


def read(path: Path) -> list[Cell]:
    """The code cells of a notebook. Raises HpushimError for what is no Python notebook, or holds what cannot be run."""
    try:
        notebook = json.loads(path.read_bytes())
        cells = notebook["cells"]
        texts = [
            (number, "".join(cell["source"]))
            for number, cell in enumerate(cells, 1)
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise HpushimError(
            f"{path}: not a notebook of format 4 ({type(error).__name__}: {error}); expected one; "
            "jupyter nbconvert --to notebook makes one of an older file"
        ) from None
    spec = notebook.get("metadata", {}).get("kernelspec", {})
    language = spec.get("language") or "python"
    if language != "python":
        raise HpushimError(f"{path}: a notebook in {language}; expected one in Python")
    return [Cell(number, text, _plain(text, f"{path}, cell {number}")) for number, text in texts]


def _plain(text: str, where: str) -> str:
    """The code of a cell without IPython's own syntax; lines keep their numbers. Raises HpushimError."""
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"), 0)
    if lines[first].startswith("%%"):
        name, _, rest = lines[first][2:].strip().partition(" ")
        body = "\n".join(lines[first + 1 :])
        if name in _SHELLS:
            return "\n" * first + f"{_FUNCTION}.shell({body!r}, {name!r})"
        if name == "writefile":
            return "\n" * first + f"{_FUNCTION}.write({rest.strip()!r}, {body!r})"
        if name not in _AROUND:
            raise _refused(f"%%{name}", f"{where}, line {first + 1}")
        lines[first] = ""
    inside = _inside_strings("\n".join(lines))
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None or number + 1 in inside:
            assigned = re.match(r"\s*[\w, ]+=\s*(?P<sign>[!%])(?P<name>\w*)", line)
            if assigned and number + 1 not in inside:
                raise _refused(line.strip(), f"{where}, line {number + 1}")
            continue
        replaced = _of_line(match["sign"], match["rest"].strip(), f"{where}, line {number + 1}")
        lines[number] = match["indent"] + replaced
    return "\n".join(lines)


def _of_line(sign: str, rest: str, where: str) -> str:
    if sign == "!":
        return f"{_FUNCTION}.shell({rest.lstrip('!')!r})"
    name, _, value = rest.partition(" ")
    value = value.strip()
    if name in _NOTHING:
        return "pass"
    if name == "time":
        return value or "pass"
    if name == "pip":
        return f"{_FUNCTION}.shell({'pip ' + value!r})"
    if name == "cd":
        return f"{_FUNCTION}.go({value!r})"
    if name in ("env", "set_env") and re.match(r"\w+[ =]", value):
        variable, _, text = value.replace("=", " ", 1).partition(" ")
        return f"{_FUNCTION}.set({variable!r}, {text.strip()!r})"
    raise _refused(f"%{name}", where)


def _refused(magic: str, where: str) -> HpushimError:
    return HpushimError(
        f"{where}: `{magic}` is IPython's, and `hpushim run` does not know it; nothing was run; expected Python, `!` lines "
        "or magics such as %matplotlib, %time, %env, %cd, %%bash; take it out, or run the notebook with Jupyter: "
        "HPUSHIM=emulate jupyter nbconvert --to notebook --execute FILE, with `import hpushim` in its first cell"
    )


def _inside_strings(text: str) -> set[int]:
    """The lines that begin inside a string of several lines, or that go on from the line before, as far as can be read."""
    found: set[int] = set()
    quote, number = "", 1
    for match in re.finditer(r"\\.|\"\"\"|'''|#[^\n]*|\n", text, re.DOTALL):
        token = match[0]
        if token == "\n":
            number += 1
            if quote:
                found.add(number)
        elif token in ('"""', "'''"):
            quote = "" if quote == token else quote or token
        elif token == "\\\n":
            number += 1
            found.add(number)
    return found


# -- running --------------------------------------------------------------------------------


class Helpers:
    """What replaced lines call."""

    @staticmethod
    def shell(command: str, shell: str = "") -> None:
        """Runs a command, as IPython does: its failure does not stop the notebook."""
        sys.stdout.flush()
        subprocess.run([shell or "sh", "-c", command], check=False)

    @staticmethod
    def go(folder: str) -> None:
        """Changes the folder."""
        os.chdir(Path(folder.strip("'\"")).expanduser())

    @staticmethod
    def set(variable: str, value: str) -> None:
        """Sets a variable of the environment."""
        os.environ[variable] = value

    @staticmethod
    def write(name: str, text: str) -> None:
        """Writes a file."""
        Path(name.removeprefix("-a").strip()).write_text(text + "\n", encoding="utf-8")


def run_cells(path: Path, cells: list[Cell], names: dict[str, Any], parsed: Parse) -> None:
    """Runs the cells in ``names``; ``parsed`` makes the tree of a cell's code, given its file name and bytes."""
    names[_FUNCTION] = Helpers
    names.setdefault("display", _display)
    for cell in cells:
        file = f"{path} (cell {cell.number})"
        linecache.cache[file] = (len(cell.source), None, cell.source.splitlines(True), file)
        for code in _codes(parsed(file, cell.code.encode()), file):
            value = eval(code, names)
            if value is not None:
                sys.displayhook(value)


def parse(file: str, data: bytes) -> ast.Module:
    """The tree of a cell as it is."""
    return ast.parse(data, file)


def _codes(tree: ast.Module, file: str) -> Iterator[CodeType]:
    """The statements of a cell, and its last expression apart, whose value is shown."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    yield compile(tree, file, "exec", dont_inherit=True)
    if isinstance(last, ast.Expr):
        yield compile(ast.Expression(last.value), file, "eval", dont_inherit=True)


def _display(*values: Any) -> None:
    for value in values:
        print(value)
