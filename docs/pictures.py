"""Draws the picture of a report that README shows: ``python docs/pictures.py [--browser chromium]``.

Writes ``docs/report.png`` from the report on the bundled CUDA project, as a browser shows its HTML.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "tests" / "projects" / "char_gpt" / "before"
SIZE = "960,660"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--browser", default="chromium", help="Chromium or Chrome")
    browser = shutil.which(parser.parse_args().browser)
    if browser is None:
        print("no such browser: install Chromium, or name one with --browser", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "char_gpt"  # the name that the page shows
        shutil.copytree(PROJECT, project)
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "hpushim", "report", "-q", "--format", "html", "-o", str(page), str(project)]  # fmt: skip
        subprocess.run(command, check=True, cwd=folder)
        picture = ROOT / "docs" / "report.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
                   f"--window-size={SIZE}", f"--screenshot={picture}", page.as_uri()]  # fmt: skip
        subprocess.run([browser, *options], check=True, stderr=subprocess.DEVNULL)
    print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
