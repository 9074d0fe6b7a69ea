"""Which statements made what a program shows."""

from __future__ import annotations

import pytest
import telling

FILES = {
    "train.py": """\
import torch
import engine
USE = torch.cuda.is_available()
other = 3
model = engine.build(USE)
if USE:
    print("said", "yes")
print("loss", model)
""",
    "engine.py": """\
def build(use_cuda):
    kind = "cuda" if use_cuda else "cpu"
    unused = 1
    return kind
""",
}


@pytest.mark.parametrize(
    ("place", "made", "not_made"),
    [
        (("train.py", 8), {("train.py", 5), ("engine.py", 4), ("engine.py", 2), ("train.py", 3)}, {("train.py", 4), ("engine.py", 3)}),
        (("train.py", 7), {("train.py", 6), ("train.py", 3)}, {("train.py", 5), ("engine.py", 2)}),
        (("engine.py", 2), {("train.py", 5), ("train.py", 3)}, {("train.py", 7), ("engine.py", 3)}),
    ],
)  # fmt: skip
def test_what_a_line_shows_is_followed_back_over_names_and_files(
    place: telling.Place, made: set[telling.Place], not_made: set[telling.Place]
) -> None:
    steps = telling.Program(FILES).made([place])
    found = {(one.file, one.first) for one in steps}
    assert made <= found
    assert not not_made & found
    assert [n for one, n in steps.items() if (one.file, one.first) == place] == [0]


def test_a_traceback_is_told_in_lines_of_the_original() -> None:
    after = {**FILES, "train.py": "import habana_frameworks.torch\n" + FILES["train.py"]}
    output = 'Traceback (most recent call last):\n  File "/x/train.py", line 6, in <module>\n  File "/y/torch/a.py", line 2, in f\n  File "/x/engine.py", line 2, in build\n'
    found = list(telling.stopped_at(output, FILES, after))
    assert found == [("train.py", 5), ("engine.py", 2)]


def test_what_prints_a_word_is_found() -> None:
    assert list(telling.printed_by("said", "yes", FILES)) == [("train.py", 7)]
    assert list(telling.printed_by("said", "no", FILES)) == []
    assert list(telling.printed_by("loss", "", FILES)) == [("train.py", 8)]
    assert list(telling.saying("loss", FILES)) == [("train.py", 8)]
    assert list(telling.saying("", FILES)) == []
