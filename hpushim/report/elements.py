"""HTML made of elements: every text and every attribute is escaped, because nothing is ever written as markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from hpushim import showing

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


def page(root: ET.Element) -> str:
    """The document as text."""
    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"
