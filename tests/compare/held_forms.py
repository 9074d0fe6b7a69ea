"""Devices' texts that are compared inside of tuples, lists and records: each form with each filling."""

from __future__ import annotations

from form_case import FormCase

#: What holds a text beside something else: what defines it, and the text of one; then whether a table may have it for a key.
_FILLINGS = {
    "tuple": ("", "({}, 0)", True),
    "list": ("", "[{}]", False),
    "tuple in a list": ("", "[({}, True)]", False),
    "named tuple": (
        "from typing import NamedTuple\nclass Place(NamedTuple):\n    kind: str\n    index: int\n",
        "Place({}, 0)",
        True,
    ),
    "namedtuple()": (
        'from collections import namedtuple\nPlace = namedtuple("Place", "kind index")\n',
        "Place(index=0, kind={})",
        True,
    ),
    "table": ("", '{{"kind": {}, "index": 0}}', False),
    "table of lists": ("", '{{"kind": [{}]}}', False),
    "keys": ("", "{{{}: 0}}", False),
    "namespace": (
        "from types import SimpleNamespace\n",
        "SimpleNamespace(kind={})",
        False,
    ),
    "record": (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Place:\n    kind: str\n    index: int = 0\n",
        "Place({})",
        True,
    ),
}
#: One is what a function returns, the other holds CUDA's text; the second word says whether the place looks something up in a table.
_FORMS = {
    "equal": ("made(x) == {}", False),
    "equal reversed": ("{} == made(x)", False),
    "not equal": ("made(x) != {}", False),
    "equal by names": ("(a := made(x), b := {}, a == b)[2]", False),
    "among": ("made(x) in [{}]", False),
    "not among by name": ("(a := [{}], made(x) not in a)[1]", False),
    "among what is made": ("{} in [made(x)]", False),
    "key": ("{{{}: 1}}[made(x)]", True),
    "get": ("{{{}: 1}}.get(made(x))", True),
    "in a table": ("made(x) in {{{}: 1}}", True),
}
HELD_FORMS = [
    FormCase(
        f"{filling}, {form}",
        f"{defined}def made(t):\n    return {text.format('t.device.type')}\n"
        f"def f(x, device, given):\n    return {asked.format(text.format(repr('cuda')))}\n",
    )
    for filling, (defined, text, hashed) in _FILLINGS.items()
    for form, (asked, table) in _FORMS.items()
    if hashed or not table
]
HELD_FORMS += [
    FormCase(
        f"a record by {opened}",
        "from dataclasses import asdict, astuple, dataclass\n@dataclass\nclass Place:\n    kind: str\n    index: int = 0\n"
        f"def f(x, device, given):\n    return {opened}(Place(x.device.type)) == {wanted}\n",
    )
    for opened, wanted in (
        ("astuple", '("cuda", 0)'),
        ("asdict", '{"kind": "cuda", "index": 0}'),
        ("vars", '{"kind": "cuda", "index": 0}'),
    )
]
HELD_FORMS += [
    FormCase(
        f"a table with pairs for keys, {form}",
        f"def f(x, device, given):\n    seen = {{(t.device.type, 1): 5 for t in [x]}}\n    return {asked}\n",
    )
    for form, asked in (
        ("in", '("cuda", 1) in seen'),
        ("entry", 'seen[("cuda", 1)]'),
        ("entry by name", 'seen["cuda", 1]'),
        ("get", 'seen.get(("cuda", 1))'),
    )
]
HELD_FORMS += [
    FormCase(
        "list that grows",
        "def f(x, device, given):\n    seen = []\n    for t in [x]:\n        seen.append((t.device.type, True))\n"
        '    return seen == [("cuda", True)]\n',
    ),
    FormCase(
        "the same function of both",
        'def kind_of(text):\n    return text.split(":")[0]\n'
        'def f(x, device, given):\n    return kind_of(str(device)) == kind_of("cuda:0")\n',
    ),
    FormCase(
        "parts by the same function of both",
        'def parts(text):\n    kind, _, n = text.partition(":")\n    return kind, int(n or 0)\n'
        'def f(x, device, given):\n    return parts(str(device)) == parts("cuda:0")\n',
    ),
    FormCase(
        "key of a table by members",
        'import enum\nclass Kind(str, enum.Enum):\n    CUDA = "cuda"\n    CPU = "cpu"\n'
        "def f(x, device, given):\n    return {Kind.CUDA: 1, Kind.CPU: 2}[x.device.type]\n",
    ),
]
