"""Makes a checkout ready to be published: README's links lead to the repository, and pyproject.toml names it.

    python docs/release.py https://example.org/owner/hpushim v0.1.0

Changes README.md and pyproject.toml in place: run it in the checkout of a workflow, not in yours.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def absolute(text: str, home: str, tag: str) -> str:
    """The text with every relative link leading into the repository; pictures to the file itself."""

    def link(found: re.Match[str]) -> str:
        place = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({home}/{place}/{tag}/{found[3]})"

    return _LINK.sub(link, text)


def with_urls(project: str, home: str) -> str:
    """pyproject.toml with the addresses of the project."""
    urls = {
        "Homepage": home,
        "Issues": f"{home}/issues",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }
    table = "\n".join(f'{name} = "{url}"' for name, url in urls.items())
    return project.replace(
        "[project.optional-dependencies]",
        f"[project.urls]\n{table}\n\n[project.optional-dependencies]",
        1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("home", help="the address of the repository")
    parser.add_argument("tag", help="the tag to publish")
    options = parser.parse_args()
    home = options.home.rstrip("/")
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(
        absolute(readme.read_text(encoding="utf-8"), home, options.tag), encoding="utf-8"
    )
    project.write_text(with_urls(project.read_text(encoding="utf-8"), home), encoding="utf-8")


if __name__ == "__main__":
    main()
