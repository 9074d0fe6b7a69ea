"""Forms in which a device's text stands inside of what is compared: measured, ordered, padded, in a table, in JSON, in a path."""

from __future__ import annotations

from form_case import FormCase

_IMPORTS = (
    "import collections, difflib, hashlib, json, os, pathlib, re, string, textwrap, types, zlib\n"
)


def _form(text: str, lines: tuple[int, ...] = (3,)) -> FormCase:
    return FormCase(text, f"{_IMPORTS}def f(x, device, given):\n    return {text}\n", "device", lines)  # fmt: skip


_MEASURED = [
    "len(str(x.device)) == 6",
    "len(x.device.type) == 4",
    "len(x.device.type) > 3",
    'len(str(x.device)) == len("cuda:0")',
    'hash(x.device.type) == hash("cuda")',
    'hash(str(x.device)) == hash("cuda:0")',
    "ord(x.device.type[0]) == 99",
    "[ord(c) for c in x.device.type] == [99, 117, 100, 97]",
    'list(x.device.type) == ["c", "u", "d", "a"]',
    'set(x.device.type) == set("cuda")',
    '"".join(reversed(x.device.type)) == "aduc"',
    'x.device.type[-1] == "a"',
    'x.device.type[::-1] == "aduc"',
    'x.device.type.encode().hex() == "63756461"',
    'zlib.crc32(x.device.type.encode()) == zlib.crc32(b"cuda")',
    'hashlib.md5(x.device.type.encode()).hexdigest() == hashlib.md5(b"cuda").hexdigest()',
    'x.device.type.swapcase() == "CUDA"',
    "x.device.type.isalpha() and len(x.device.type) == 4",
    'difflib.get_close_matches(x.device.type, ["cuda", "cpu"]) == ["cuda"]',
    "collections.Counter(x.device.type)['d'] == 1",
    # Beside nothing that names CUDA:
    "[x.device.type * 2] == [given * 2]",
    "[x.device.type[0]] == [given[0]]",
    "[c for c in x.device.type] == list(given)",
    "[len(x.device.type)] == [4]",
]
_ORDERED = [
    'x.device.type < "d"',
    'str(x.device) < "d"',
    'x.device.type <= "cuda"',
    '"d" > x.device.type',
    'min(x.device.type, "d") == "cuda"',
    'sorted([x.device.type, "cpu", "gpu"])[1] == x.device.type',
    'sorted(["z", "d", x.device.type]).index(x.device.type) == 0',
    # Beside a text that does not name CUDA:
    'min(x.device.type, "d") == given',
    'max(x.device.type, "d") in [given, "d"]',
]
_PADDED = [
    'f"{x.device.type:>6}" == "  cuda"',
    'f"{x.device.type:<6}|" == "cuda  |"',
    'f"{x.device.type!s:^8}" == "  cuda  "',
    'f"{x.device!s:>8}" == "  cuda:0"',
    'f"on {x.device!r:>30}" == "on   device(type=\'cuda\', index=0)"',
    '"%6s" % x.device.type == "  cuda"',
    '"%8s" % x.device == "  cuda:0"',
    '"{:>6}".format(x.device.type) == "  cuda"',
    '"{0!s:>8}".format(x.device) == "  cuda:0"',
    'format(x.device.type, ">6") == "  cuda"',
    'x.device.type.rjust(6) == "  cuda"',
    'x.device.type.ljust(6, ".") == "cuda.."',
    'x.device.type.center(8) == "  cuda  "',
    '"%6s" % x.device.type == given.rjust(6)',
    'format(x.device.type, ">6") == given.rjust(6)',
    '"{:>6}".format(x.device.type) == given.rjust(6)',
    'f"{x.device.type:>6}|" == given.rjust(6) + "|"',
    'f"run {x.device.type:>6}" in ["run " + given.rjust(6)]',
]
_HELD = [
    'json.dumps({"d": str(x.device)}) == \'{"d": "cuda:0"}\'',
    '"cuda" in json.dumps({"d": str(x.device)})',
    'json.dumps([x.device.type]).count("cuda")',
    '{"device": x.device.type} == {"device": "cuda"}',
    'dict(d=str(x.device)) == {"d": "cuda:0"}',
    'vars(types.SimpleNamespace(d=x.device.type)) == {"d": "cuda"}',
    "repr([x.device.type]) == \"['cuda']\"",
    "str({x.device}) == \"{device(type='cuda', index=0)}\"",
    "str({\"d\": x.device.type}) == \"{'d': 'cuda'}\"",
    'os.path.join("kernels", x.device.type) == "kernels/cuda"',
    'str(pathlib.Path("k") / x.device.type) == "k/cuda"',
    're.findall(r"[a-z]+", str(x.device)) == ["cuda"]',
    're.split(":", str(x.device)) == ["cuda", "0"]',
    're.match(r"^c\\w+a$", x.device.type) is not None',
    're.compile(r"c[u-v]da").match(x.device.type) is not None',
]

INSIDE_EXPRESSIONS = [_form(text) for text in (*_MEASURED, *_ORDERED, *_PADDED, *_HELD)]
INSIDE_EXPRESSIONS += [
    FormCase(text, f"{_IMPORTS}def f(x, device, given):\n    return {text}\n", "word", (3,), True)
    for text in (
        'textwrap.fill(x.device.type, 20) == "cuda"',
        'string.Template("$d").substitute(d=x.device.type) == "cuda"',
    )
]
#: What a list of the author's is compared with holds texts that nothing in the file shows to be devices'.
INSIDE_EXPRESSIONS += [
    FormCase(
        f"{form} of {made}",
        f"import itertools, types\ndef f(x, device, given):\n    groups = {made}\n    return {form}\n",
        "word",
        (4,),
        follows=True,
    )
    for made in (
        "{k: 1 for k, _ in itertools.groupby([{'where': x.device.type}], key=lambda row: row['where'])}",
        "vars(types.SimpleNamespace(**{x.device.type: 1}))",
    )
    for form in (
        'list(groups) == ["cuda"]',
        '["cuda"] == list(groups)',
        '[*groups] != ["cuda"]',
        'tuple(groups) == ("cuda",)',
        'set(groups) == {"cuda"}',
        'sorted([*groups, "cpu"]) == ["cpu", "cuda"]',
    )
]
#: Nothing is compared with CUDA here, though a device, or what is named like one, stands inside.
INSIDE_EXPRESSIONS += [
    FormCase(text, f"def f(x, device, given):\n    return {text}\n", "no")
    for text in (
        "len(given) == 4",
        'f"{len(given):>6}" == "     3"',
        'str(x.device).split(":")[0] == "cpu"',
        'x.device.type.upper() == "HPU"',
        'x.device.type[:3] == "hpu"',
        "x.device.index < 2",
        "hash(x.device) == hash(device)",
    )
]
