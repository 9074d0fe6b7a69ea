"""Runs the tests of what differs from a commit: ``python tests/related.py [COMMIT]``, which is what ``make quick`` does.

By names, so that it costs nothing: a test is related to the file itself, to a rule by its page and its codes, and to a module by
what it imports. Tests that take long are left to ``make test``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What no name leads to.
OF_DATA = {
    "compat_matrix": ["tests/matrix", "tests/test_catalogue.py", "tests/test_docs.py", "tests/shim/test_honesty.py"],
    "docs/": ["tests/test_docs.py", "tests/test_wording.py"],
    "README": ["tests/test_docs.py", "tests/test_wording.py"],
    "hpushim/emulator/csrc/": ["tests/emulator/test_device_tensors.py", "tests/emulator/test_trust.py"],
    "hpushim/emulator/site/": ["tests/emulator/api"],
    "hpushim/shim/patches/": ["tests/shim/test_patch_rows.py", "tests/shim/test_idioms.py", "tests/shim/test_tail.py", "tests/shim/test_identity.py"],
    "hpushim/pycode/": ["tests/pycode", "tests/test_rules.py"],
}  # fmt: skip
ALWAYS = ["tests/test_rooms.py", "tests/test_catalogue.py"]
#: More test files than this say that a file is used by all: then its own folder's tests have to do.
MANY = 12


@cache
def _tests() -> dict[str, str]:
    """Every test file with its text."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }


def related(file: str) -> list[str]:
    """What to ask pytest for after a change of this file; ``::NAME`` asks for one page of the rules."""
    path = Path(file)
    if file in _tests():
        return [file]
    if path.parts[0] == "tests":
        return [name for name, text in _tests().items() if _names(path.stem, text)]
    found = [test for start, tests in OF_DATA.items() if file.startswith(start) for test in tests]
    if path.parts[0] == "codemods" and len(path.parts) > 2:
        stem = path.name.partition(".")[0]
        if (ROOT / path.parent / f"{stem}.md").is_file():
            found.append(f"tests/test_rules.py::{stem}")
            page = (ROOT / path.parent / f"{stem}.md").read_text(encoding="utf-8")
            code = re.search(r"HPU\d{3}", page)
            found += [name for name, text in _tests().items() if code and code[0] in text]
        else:
            found.append("tests/test_rules.py")
            dotted = "hpushim." + ".".join(path.with_suffix("").parts)
            found += [name for name, text in _tests().items() if _imports(dotted, text)]
            found += [name for name in _tests() if name.endswith(f"/test_{stem}.py")]
    elif path.suffix == ".py" and path.parts[0] == "hpushim":
        dotted = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        importing = [name for name, text in _tests().items() if _imports(dotted, text)]
        folder = f"tests/{path.parts[1]}"
        if 0 < len(importing) <= MANY:
            found += importing
        elif not found and (ROOT / folder).is_dir():
            found.append(folder)
    return sorted(set(found))


def _names(stem: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(stem)}\b", text) is not None


def _imports(dotted: str, text: str) -> bool:
    package, _, name = dotted.rpartition(".")
    return re.search(rf"\b{re.escape(dotted)}\b", text) is not None or (
        re.search(rf"from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b", text)
        is not None
    )


def changed(commit: str) -> list[str]:
    """Files that differ from a commit, new ones too."""
    words = (["diff", "--name-only", commit], ["ls-files", "--others", "--exclude-standard"])
    said = [
        subprocess.run(["git", *one], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for one in words
    ]
    return sorted({line for out in said for line in out.splitlines() if (ROOT / line).exists()})


def commands(files: Iterable[str], *, always: bool = True) -> list[list[str]]:
    """Words for pytest: once for whole files and folders, once for pages."""
    asked = {test for file in files for test in related(file)} | set(ALWAYS if always else ())
    whole = sorted(test for test in asked if "::" not in test)
    pages = sorted(test.partition("::")[2] for test in asked if "::" in test)
    found = []
    if pages and "tests/test_rules.py" not in whole:
        found.append(["tests/test_rules.py", "-k", " or ".join(pages)])
    return [*found, whole] if whole else found


def main(commit: str = "HEAD") -> int:
    """The worst exit status; 5, that nothing was there to run, is no fault."""
    worst = 0
    for words in commands(changed(commit)):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "not slow and not bench",
            "-n",
            "2",
            *words,
        ]
        print("pytest", *words, flush=True)
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        worst = max(worst, 0 if status == 5 else status)
    return worst


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
