"""Draws the pictures of the documents anew: ``python docs/pictures.py [--only NAME]``.

``report`` is the HTML report on the bundled CUDA project as Chromium shows it, ``architecture`` is drawn by Graphviz out of
``architecture.dot``, and ``terminal-…`` are recordings of real commands.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "docs"
PROJECT = ROOT / "tests" / "projects" / "char_gpt" / "before"
SIZE = "960,660"
WIDTH, LINES = 120, 26
#: Recording → the command, run in a copy of docs/example.
RECORDED = {
    "terminal-report": "hpushim report -q train.py",
    "terminal-migrate": "hpushim migrate --diff train.py",
    "terminal-prove": "hpushim prove train.py",
}


def tool(*names: str) -> str:
    """The first of these programs that is installed; ends with a message where none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        sys.exit(f"install {' or '.join(names)}, or draw something else with --only")
    return found


def report(picture: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "char_gpt"  # the name that the page shows
        shutil.copytree(PROJECT, project)
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "hpushim", "report", "-q", "--format", "html", "-o", str(page), str(project)]  # fmt: skip
        subprocess.run(command, check=True, cwd=folder)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
                   f"--window-size={SIZE}", f"--screenshot={picture}", page.as_uri()]  # fmt: skip
        subprocess.run([tool("chromium", "google-chrome"), *options], check=True, stderr=subprocess.DEVNULL)  # fmt: skip


def architecture(picture: Path) -> None:
    subprocess.run([tool("dot"), "-Tsvg", "-o", picture, HERE / "architecture.dot"], check=True)


def recording(picture: Path) -> None:
    """A command with what it prints, as an SVG; a long output ends with an ellipsis."""
    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    command = RECORDED[picture.stem]
    own = {name: value for name, value in os.environ.items() if not name.startswith("HPUSHIM")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(HERE / "example", project)
        env = {**own, "PATH": path, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1"}
        done = subprocess.run(command.split(), cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)  # fmt: skip
    shown = done.stdout.splitlines()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text.from_ansi("\n".join(shown[:LINES])))
        if len(shown) > LINES:
            console.print("…")
        # Nothing is loaded from elsewhere: the reader's own monospaced font will do.
        form = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        console.save_svg(str(picture), title=command, code_format=form)


PICTURES: dict[str, Callable[[Path], None]] = {
    "report.png": report,
    "architecture.svg": architecture,
    **{f"{name}.svg": recording for name in RECORDED},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[Path(name).stem for name in PICTURES])
    only = parser.parse_args().only
    for name, draw in PICTURES.items():
        if only in (None, Path(name).stem):
            draw(HERE / name)
            print(f"docs/{name}: {(HERE / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
