"""HTML made of elements: every text and every attribute is escaped, because nothing is ever written as markup."""

from __future__ import annotations

import base64
import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

from hpushim import showing

TEMPLATES = Path(__file__).parent / "templates"

Content = ET.Element | str


def el(tag: str, *content: Content | Iterable[Content], **attributes: str | bool) -> ET.Element:
    """``el("p", "text", el("b", "bold"), class_="x")``; ``data_who`` is ``data-who``, False leaves an attribute out."""
    made = ET.Element(tag)
    for name, value in attributes.items():
        if value is not False:
            text = "" if value is True else showing.one_line(str(value))
            made.set(name.rstrip("_").replace("_", "-"), text)
    for part in content:
        _add(made, part)
    return made


def _add(parent: ET.Element, part: Content | Iterable[Content]) -> None:
    if isinstance(part, ET.Element):
        parent.append(part)
    elif isinstance(part, str):
        text = showing.lines(part)
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text
    else:
        for item in part:
            _add(parent, item)


def sentence(text: str) -> list[Content]:
    """A message in which what is between backticks is code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # the last backtick opens nothing
        pieces[-2:] = ["`".join(pieces[-2:])]
    return [el("code", piece) if number % 2 else piece for number, piece in enumerate(pieces)]


def path(text: str) -> ET.Element:
    """The place of something, as code that breaks between folders alone."""
    first, *rest = text.split("/")
    made = el("code", first, class_="path")
    for part in rest:
        _add(made, [el("wbr"), f"/{part}"])
    return made


def page(root: ET.Element) -> str:
    """The document as text."""
    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"


def head(title: str, code: str) -> ET.Element:
    """The head of a page whose script is ``code``. Nothing is loaded, and no other script runs, whatever a project's names may hold."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("title", title),
        _raw("style", (TEMPLATES / "report.css").read_text(encoding="utf-8")),
    )


def script(code: str) -> ET.Element:
    """A script of ours, at the end of a page."""
    return _raw("script", code)


def _raw(tag: str, text: str) -> ET.Element:
    """Style and script are ours, and HTML does not escape inside them."""
    made = ET.Element(tag)
    made.text = text
    return made
