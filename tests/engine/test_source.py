"""Bytes to text and back: nothing that is not edited changes, and what cannot come back is refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpushim.engine.files.source import Unreadable, decode, rewritten
from hpushim.model import Edit, Span


def swap(text: str, old: str, new: str) -> Edit:
    at = text.encode().index(old.encode())
    return Edit(Span(at, at + len(old.encode())), old, new)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\n", "utf-8"),
        (codecs.BOM_UTF8 + "x = 'é'\r\n".encode(), "utf-8"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'  # old\n", "iso8859-1"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n", "cp1252"),
        ("# coding: koi8-r\nx = 'й'\n".encode("koi8-r"), "koi8-r"),
        ("# coding: shift_jis\nx = 'あ'\n".encode("shift_jis"), "shift_jis"),
        (b"# coding: utf8\nx\rold\r", "utf-8"),
        (b"\x0cx = 1\n\x0cy = 2", "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_python_comes_back(data: bytes, encoding: str) -> None:
    source = decode(data, python=True)
    assert source.encoding == encoding
    assert source.data == data == rewritten(source, ())


def test_only_the_edit_is_encoded() -> None:
    data = b"# coding: latin-1\r\nx = '\xe9\xff'; old = '\xe8'\r\n"
    source = decode(data, python=True)
    after = rewritten(source, (swap(source.text, "old", "né"),))
    assert after == data.replace(b"old", b"n\xe9")


def test_what_the_encoding_cannot_hold_is_refused() -> None:
    source = decode(b"# coding: ascii\nold\n", python=True)
    with pytest.raises(Unreadable, match="cannot encode"):
        rewritten(source, (swap(source.text, "old", "é"),))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"x = '\xe9'\n", "no coding line"),
        (b"# coding: nonsense\n", "an unknown encoding"),
        (b"# coding: rot13\n", "not a text encoding"),
        (b"# coding: hex\n", "not a text encoding"),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "byte order mark"),
        (b"x = 1\0\n", "NUL"),
        (b"# coding: utf-7\nx = '+2AA-'\n", "utf-7"),
        ("x = 1\n".encode("utf-16"), "no coding line"),
    ],
)
def test_what_does_not_come_back_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        decode(data, python=True)


def test_a_stateful_encoding_that_cannot_be_cut_is_refused() -> None:
    text = "# coding: iso2022_jp\nx = 'あold'\n"
    source = decode(text.encode("iso2022_jp"), python=True)
    try:
        after = rewritten(source, (swap(source.text, "old", "new"),))
    except Unreadable:
        return
    assert after.decode("iso2022_jp") == text.replace("old", "new")


def test_other_files_may_be_anything_but_binary() -> None:
    assert decode(b"a: \xe9\n", python=False).encoding == "latin-1"
    wide = "a: old\n".encode("utf-16")
    source = decode(wide, python=False)
    assert source.text == "a: old\n"
    assert rewritten(source, (swap(source.text, "old", "new"),)) == "a: new\n".encode("utf-16")
    with pytest.raises(Unreadable, match="NUL"):
        decode(b"\x7fELF\0\0", python=False)


COOKIES = [
    b"",
    b"# coding: latin-1\n",
    b"# coding: cp1252\r\n",
    b"#!x\n# coding=utf-8\n",
    b"\xef\xbb\xbf",
]


@given(st.sampled_from(COOKIES), st.binary(max_size=60), st.booleans())
def test_any_bytes_come_back_or_are_refused(head: bytes, tail: bytes, python: bool) -> None:
    data = head + tail
    try:
        source = decode(data, python=python)
    except Unreadable:
        return
    assert source.data == data
    assert rewritten(source, ()) == data
    at = len(source.text.encode())
    assert rewritten(source, (Edit(Span(at, at), "", "x"),)).startswith(data)
