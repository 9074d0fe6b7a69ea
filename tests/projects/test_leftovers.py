"""The checker for words that nobody speaks of: it finds them, and finds none in real repositories."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import leftovers
import pytest

#: Kinds of sites that are no silence: no device, or a choice that the author has made for Gaudi.
EXPLAINED = {leftovers.LOOKS, leftovers.BESIDE, leftovers.WHOLE, "in a file that handles Gaudi"}
FOLDER = os.environ.get("HPUSHIM_CORPORA")


@pytest.mark.parametrize(
    ("path", "text", "kinds"),
    [
        ("a.py", 'import torch as t\nt.cuda.x()\nf("cuda", a="nccl")\n', ["'cuda'", "'nccl'", "torch.cuda"]),
        ("a.py", 'm.cuda()\ng = m.cuda\nh(CUDA_VISIBLE_DEVICES="0")\n', [".cuda", ".cuda()", "variable"]),
        ("a.py", '"""cuda"""\nprint("cuda")  # cuda\n', [leftovers.LOOKS]),
        ("a.sh", "# cuda\nA=${A:-cuda}\nunset NCCL_DEBUG\necho cuda\n", ["'cuda'", "variable"]),
        ("a.yaml", "a: ${b:-nccl}\nc: [cuda, cpu]\n", ["'cuda'", "'nccl'"]),
    ],
)  # fmt: skip
def test_the_checker_sees_words_in_code(path: str, text: str, kinds: list[str]) -> None:
    assert sorted(site.kind for site in leftovers.sites(path, text)) == kinds
    silent = leftovers.silent(path, text, [])
    assert sorted(site.kind for site in silent) == kinds
    assert not leftovers.silent(path, text, [(1, 9, "`NCCL_DEBUG`")])


@pytest.mark.skipif(not FOLDER, reason="HPUSHIM_CORPORA does not say where repositories are")
def test_no_word_of_real_repositories_is_silent() -> None:
    assert FOLDER is not None
    found: dict[str, list[str]] = {}
    for root in sorted(path for path in Path(FOLDER).iterdir() if path.is_dir()):
        here = leftovers.assessed(root, Counter(), verbose=True)
        if left := sorted(set(here) - EXPLAINED):
            found[root.name] = left
    assert not found
