"""Notebooks: only the strings of changed lines change; outputs, metadata and layout stay byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from hpushim.engine.data import notebook as notebooks
from hpushim.engine.data.notebook import Notebook
from hpushim.engine.one_file import settle
from hpushim.engine.project import migrate, undo
from hpushim.model import Span, Target

pytestmark = pytest.mark.usefixtures("rules")

OUTPUT = {"output_type": "stream", "name": "stdout", "text": ["old_name\n"]}


def code(source: Any, **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "outputs": [OUTPUT], "source": source, **more}


def notebook(*cells: Any, indent: int | None = 1, ascii_only: bool = False, **meta: Any) -> str:
    whole = {"cells": list(cells), "metadata": meta, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=indent, ensure_ascii=ascii_only) + "\n"


def settled(text: str) -> str:
    after = settle(text, "notebook", "a.ipynb", toys.context()).text
    json.loads(after)
    assert settle(after, "notebook", "a.ipynb", toys.context()).text == after
    return after


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_only_the_changed_string_changes(indent: int | None, ascii_only: bool) -> None:
    def make(name: str) -> str:
        return notebook(
            {"cell_type": "markdown", "metadata": {}, "source": ["old_name\n"]},
            code(["é = 'é\\n😀'\n", f"x = '\"' + {name}  # é\n", "y"], execution_count=None),
            code(f"z = {name}\n'é\t'; {name}"),
            indent=indent,
            ascii_only=ascii_only,
        )

    assert settled(make("old_name")) == make("new_name")


def test_names_are_shared_between_cells_and_lines_are_inserted() -> None:
    before = notebook(
        code(["a\n", "needs_import"]), code("needs_import\n"), code(["%%bash\n", "x"])
    )
    after = notebook(
        code(["import lib\n", "a\n", "lib.made"]), code("lib.made\n"), code(["%%bash\n", "x"])
    )
    assert settled(before) == after


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (["%matplotlib inline\n", "old_name"], ["%matplotlib inline\n", "new_name"]),
        (["!pip install old_name\n", "old_name"], ["!pip install old_name\n", "new_name"]),
        (["!a \\\n", "  old_name\n", "old_name"], ["!a \\\n", "  old_name\n", "new_name"]),
        (["if x:\n", "  !ls\n", "  old_name"], ["if x:\n", "  !ls\n", "  new_name"]),
        (["f = !ls old_name\n", "old_name"], ["f = !ls old_name\n", "new_name"]),
        (["%%time\n", "old_name"], ["%%time\n", "new_name"]),
        (["%%writefile train.py\n", "old_name"], ["%%writefile train.py\n", "new_name"]),
        (["%%writefile notes.txt\n", "old_name"], None),
        (["%%bash\n", "echo old_name"], None),
        (["old_name?"], None),
        (["x = (a\n", "  % old_name)"], ["x = (a\n", "  % new_name)"]),
        (["old_name;"], ["new_name;"]),
        (["await old_name"], ["await new_name"]),
        (["print 'x'\n", "old_name"], None),
    ],
)
def test_magics_are_left(source: list[str], expected: list[str] | None) -> None:
    before = notebook(code(source), code(["old_name"]))
    assert settled(before) == notebook(code(expected or source), code(["new_name"]))


@pytest.mark.parametrize("above", [[], ["\n"], ["#@title Setup\n"], ["# one\n", "\n", "  #@markdown two\n"]])  # fmt: skip
@pytest.mark.parametrize(("magic", "shell"), [("%%bash", True), ("%%sh", True), ("%%script bash", True), ("%%writefile a.py", False), ("%%html", False)])  # fmt: skip
def test_comments_before_the_magic_of_a_cell(above: list[str], magic: str, shell: bool) -> None:
    book = notebook(code([*above, f"{magic}\n", "if [ -e a ]; then b; fi"]), code(["old_name"]))
    settled = settle(book, "notebook", "a.ipynb", toys.context())
    assert [f.code for f in settled.findings] == ["HPU901"]
    commands = [text.strip() for _, text in Notebook(book, book.encode()).commands()]
    assert commands == ([b"if [ -e a ]; then b; fi"] if shell else [])


def test_a_cell_that_is_not_python_is_said_and_the_others_are_done() -> None:
    text = notebook(code(["def f(:\n"]), code(["old_name"]))
    found = settle(text, "notebook", "a.ipynb", toys.context()).findings
    assert [(f.code, f.applied) for f in found] == [("HPU001", False), ("HPU901", True)]
    assert "cell 1 is not Python" in found[0].message
    assert found[1].message.endswith("(cell 2)")
    line = text.split("\n")[found[1].line - 1]
    assert line[found[1].column - 1 :].startswith("old_name")


def test_other_languages_and_old_formats() -> None:
    julia = notebook(code(["old_name"]), kernelspec={"language": "julia", "name": "julia"})
    assert settled(julia) == julia
    old = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["old_name\n", "x"]}]}]}
    assert settled(json.dumps(old)) == json.dumps(old).replace("old_name", "new_name")


def test_a_rewrite_that_breaks_a_cell_is_not_made() -> None:
    text = notebook(code(["broken\n", "old_name"]))
    result = settle(text, "notebook", "a.ipynb", toys.context())
    assert result.text == notebook(code(["broken\n", "new_name"]))
    assert any(f.code == "HPU004" for f in result.findings)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"

    def make(name: str) -> bytes:
        return notebook(code([f"{name}\n"])).replace("\n", "\r\n").encode("utf-8-sig")

    data = make("old_name")
    path.write_bytes(data)
    migrate([tmp_path], Target())
    assert path.read_bytes() == make("new_name")
    undo(tmp_path)
    assert path.read_bytes() == data


def test_what_is_no_notebook_is_left(tmp_path: Path) -> None:
    for name, data in {
        "a.ipynb": b"old_name {",
        "b.ipynb": b'"old_name"',
        "c.ipynb": b"[]old_name",
    }.items():
        (tmp_path / name).write_bytes(data)
    report = migrate([tmp_path], Target())
    assert {item.status for item in report.files} == {"failed"}
    assert all("not a notebook" in str(item.reason) for item in report.files)
    assert (tmp_path / "a.ipynb").read_bytes() == b"old_name {"


def test_what_is_put_behind_a_last_line_is_a_string_of_its_own() -> None:
    """The import goes to the end of the cell before, which ends with a newline; a cell that is not Python gets nothing."""
    for first, expected in (
        (["import os\n"], [["import os\n", "import lib\n"], ["lib.made"]]),
        (["if x:\n"], [["if x:\n"], ["import lib\n", "lib.made"]]),
    ):
        text = notebook(code(first), code(["needs_import"]))
        result = settle(text, "notebook", "a.ipynb", toys.context())
        assert [cell["source"] for cell in json.loads(result.text)["cells"]] == expected


LINES = st.sampled_from(
    [
        "old_name",
        "x = 1",
        "%magic",
        "!ls",
        "'é\\n\"'",
        "if x:",
        "  pair_y",
        "needs_import",
        "",
        "'''",
        "a \\",
        "x?",
    ]
)


@settings(max_examples=60)
@given(
    st.lists(st.lists(LINES, max_size=5), max_size=4),
    st.booleans(),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
)
def test_random_notebooks_stay_notebooks(
    cells: list[list[str]], listed: bool, indent: int | None, ascii_only: bool
) -> None:
    sources = ["\n".join(lines) for lines in cells]
    text = notebook(
        *(code(source.splitlines(keepends=True) if listed else source) for source in sources),
        indent=indent,
        ascii_only=ascii_only,
    )
    result = settle(text, "notebook", "a.ipynb", toys.context())
    after = json.loads(result.text)
    before = json.loads(text)
    assert len(after["cells"]) == len(before["cells"])
    for cell, was in zip(after["cells"], before["cells"], strict=True):
        assert {k: v for k, v in cell.items() if k != "source"} == {
            k: v for k, v in was.items() if k != "source"
        }
        if listed:
            assert all(line.endswith("\n") for line in cell["source"][:-1])
            assert all("\n" not in line[:-1] for line in cell["source"])
    # What is left as it was, is written as it was.
    if after == before:
        assert result.text == text
    else:
        dumped = json.dumps(after, indent=indent, ensure_ascii=ascii_only) + "\n"
        assert result.text == dumped or not listed or _only_layout(result.text, dumped)


def _only_layout(a: str, b: str) -> bool:
    return "".join(a.split()) == "".join(b.split())


#: What a cell may hold besides its source, in front of it and behind, in which the word appears as well.
_BESIDE = [
    '"outputs": []', '"outputs": [{"data": {"application/json": {"source": ["x = 1"]}}}]', '"metadata": {"source": "y", "input": ["z"]}',
    '"outputs": [{"text": ["\\"source\\": [\\"a\\"]"]}]', '"outputs": [{"text": "source"}]', '"id": "source"', '"source": "gone = 1"', '"note": 1 /* "source": [] */',
]  # fmt: skip
_SOURCES = ['["import torch\\n", "x = \\"é\\"\\n", "y = x.cuda()"]', '"import torch\\nx = \\"\\u00e9\\"\\ny = x.cuda()"']  # fmt: skip


@pytest.mark.parametrize("name", ["source", "input"])
@pytest.mark.parametrize("source", _SOURCES)
def test_a_source_is_found_whatever_else_its_cell_holds(name: str, source: str) -> None:
    for before in _BESIDE:
        for behind in _BESIDE:
            if name == "input" and ('"source": "gone' in before + behind):
                continue  # the newer name is the one that counts
            if name == "source" and behind.startswith('"source"'):
                continue  # as it is where a key comes twice: the last one
            cell = f'{{{before}, "cell_type": "code", "{name}" : {source}, {behind}}}'
            held = Notebook(f'{{"nbformat": 4, "cells": [{cell}, {{"cell_type": "markdown", "source": "z"}}]}}')  # fmt: skip
            assert held.python == 'import torch\nx = "é"\ny = x.cuda()\n'
            assert [each.number for each in held.cells] == [1]
            at = held.python.encode().index(b"cuda")
            span = held.span(Span(at, at + 4))
            assert held.data[span.start : span.end] == b"cuda"
            assert held.data[: span.start].endswith(b"x.")
            assert source.encode() in held.data[span.start - len(source.encode()) : span.end + 20]


_WRITTEN = (
    '["x = 1\\n", "y"]',
    '"x = \\"é\\"\\ny"',
    '"\\u00e9 = 1"',
    '["%time f()\\n"]',
    "[]",
    '""',
    "null",
    "[1]",
    '["a\tb"]',
    '"\\ud800"',
)
_CELLS = (
    '{{"cell_type": "code", "outputs": [{{"data": [1, {{"source": "no"}}]}}], "source": {0}}}',
    '{{"source": {0}, "cell_type": "code", "metadata": {{"source": {0}}}, "outputs": []}}',
    '{{"cell_type": "code", "outputs": [{{"a": "\\"source\\": [], \\ud83d\\ude00"}}], "source": {0}, "id": NaN}}',
    '{{"cell_type": "code", "input": {0}}}', '{{"source": [], "source": {0}, "cell_type": "code"}}', '{{"cell_type": "code", "s\\u006furce": {0}}}',
    '{{"cell_type": "code", "source": {0},}}', '{{"cell_type": "raw", "source": {0}}}, {{"source": {0}}}, 1', '{{"cell_type": 1, "source": {0}}}, {{}}',
    '{{"cell_type": "code", "source": {0}}} {{}}', '{{"cell_type": "code", "source": {0}, "output": "\\x"}}', '// {{\n{{"cell_type": "code", "source": {0}}}',
)  # fmt: skip
_AROUND = (
    '{{"cells": [{0}, {1}], "metadata": {{"kernelspec": {{"language": "Python"}}}}, "nbformat": 4}}\n',
    ' {{ "cells" :\n[\n{0}\n,\n{1} ] , "metadata": {{"language_info": {{"name": "R"}}}}}}',
    '{{"metadata": {{"cells": [{0}]}}, "cells": [{0}, {1}]}}', '{{"cells": [{0}], "cells": [{1}]}}', '{{"metadata": {{}}, "cells": [{0}, {1}]}}',
    '{{"worksheets": [{{"cells": [{0}]}}], "metadata": {{"kernelspec": null}}}}', '{{"cells": [{0}, {1}]}} {{}}', '{{"cells": {{"a": {0}}}}}', "[{0}, {1}]",
)  # fmt: skip


@pytest.mark.parametrize("around", _AROUND)
@pytest.mark.parametrize("cell", _CELLS)
def test_a_notebook_is_read_at_once_as_it_is_part_by_part(cell: str, around: str) -> None:
    for first, second in [(one, other) for one in _WRITTEN for other in _WRITTEN[:3]]:
        text = around.format(cell.format(first), cell.format(second))
        at_once = notebooks._plain(text.encode())
        if at_once is not None:
            assert _seen(at_once) == _seen(notebooks._Reader(text.encode()).cells())


def _seen(cells: list[notebooks.Cell]) -> list[object]:
    return [(c.number, c.text, c.listed, c.error, [(p.span, p.text) for p in c.pieces]) for c in cells]  # fmt: skip


def test_most_notebooks_are_read_at_once() -> None:
    text = _AROUND[0].format(_CELLS[0].format(_WRITTEN[0]), _CELLS[3].format(_WRITTEN[1]))
    cells = notebooks._plain(text.encode())
    assert cells is not None and [cell.number for cell in cells] == [1, 2]


@pytest.mark.parametrize("line", ["x = 1", "x = (", "x = yelse:a()"])
def test_a_cell_that_was_no_python_does_not_hold_back_its_commands(line: str) -> None:
    before = notebooks.Notebook(notebook(code([f"{line}\n", "!a"])))
    assert notebooks.unproven(before, notebook(code([f"{line}\n", "!b"]))) is None
