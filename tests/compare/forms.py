"""The forms in which programs compare devices with CUDA: the table that load-time rewriting is held to.

Each form is the body of a program that defines ``f(x, device, given)``: a tensor, a device and what the program was
told on its command line. ``holds`` says what the finder is to say of it:

``device``   a comparison, and the file shows that it is of a device
``word``     a word that happens to be ``"cuda"``; nothing shows that it is a device
``handled``  a comparison, but the code beside it knows ``hpu``
``no``       no comparison with CUDA at all

``lines``: where the comparisons begin, when it is not the last line alone. ``further_forms`` and ``further_programs`` go on with the table.
"""

from __future__ import annotations

from form_case import FormCase, expression
from further_forms import FURTHER_EXPRESSIONS
from further_programs import FURTHER_PROGRAMS
from held_forms import HELD_FORMS
from inside_forms import INSIDE_EXPRESSIONS

EXPRESSIONS = [
    # -- equality
    expression("type ==", 'x.device.type == "cuda"'),
    expression("type == reversed", '"cuda" == x.device.type'),
    expression("type !=", 'device.type != "cuda"'),
    expression("type == and more", 'x.device.type == "cuda" and len(given) > 1'),
    expression("not type ==", 'not (x.device.type == "cuda")'),
    expression("chain of two", 'x.device.type == device.type == "cuda"'),
    expression("chain that starts with cuda", '"cuda" == x.device.type == device.type'),
    expression("text of a device", 'str(x.device) == "cuda:0"'),
    expression("text by repr and format", 'format(device) == "cuda:0"'),
    expression("f-string of a device", 'f"{x.device}" == "cuda:0"'),
    expression("text with a computed index", 'str(device) == f"cuda:{device.index}"'),
    expression("text made with +", 'str(device) == "cuda:" + str(device.index)'),
    expression("text made with %", 'str(device) == "cuda:%d" % device.index'),
    expression("text made with format", 'str(device) == "cuda:{}".format(device.index)'),
    expression("slice of text", 'str(device)[:4] == "cuda"'),
    expression("first part of text", 'str(device).split(":")[0] == "cuda"'),
    expression("partition of text", 'str(device).partition(":")[0] == "cuda"'),
    expression("lower case text", 'str(device).lower() == "cuda:0"'),
    expression("text without its index", 'str(device).replace(":0", "") == "cuda"'),
    expression("text without digits", 'str(device).rstrip("0123456789:") == "cuda"'),
    expression("getattr", 'getattr(x.device, "type") == "cuda"'),
    expression("getattr with default", 'getattr(device, "type", None) == "cuda"'),
    expression("walrus", '(kind := x.device.type) == "cuda" and len(kind) > 1', lines=(2, 2)),
    expression("type of a list element", '[x][0].device.type == "cuda"'),
    expression("type of a call", 'next(iter([x])).device.type == "cuda"'),
    expression("type of a choice", '(x if given else x).device.type == "cuda"'),
    expression("tuple with another value", '(x.device.type, x.ndim) == ("cuda", 1)'),
    expression("__eq__", 'device.type.__eq__("cuda")'),
    expression("what was given, a name", 'str(given) == "cuda"', "word"),
    expression("two devices", "x.device.type == device.type", "no"),
    expression("against what was given", "x.device.type == given"),
    expression("in a conditional expression", '1 if x.device.type == "cuda" else 2'),
    expression("in a comprehension", '[1 for t in [x] if t.device.type == "cuda"]'),
    expression("in a lambda", '(lambda t: t.device.type == "cuda")(x)'),
    expression("in an f-string", "f\"{x.device.type == 'cuda'}\""),
    # -- collections
    expression("in a tuple", 'x.device.type in ("cuda", "xpu")'),
    expression("in a list", 'device.type not in ["cuda"]'),
    expression("in a set", 'device.type in {"cuda", "mps"}'),
    expression("in a frozenset", 'device.type in frozenset(("cuda", "mps"))'),
    expression("in a table", 'device.type in {"cuda": 1}'),
    expression("in a list of indices", 'str(device) in ["cuda:0", "cuda:1"]'),
    expression("any of words", 'any(device.type == word for word in ("cuda", "xpu"))'),
    expression("any word in text", 'any(word in str(device) for word in ("cuda", "hip"))'),
    expression("all of the tensors", 'all(t.device.type == "cuda" for t in [x, x])'),
    expression("types as a set", '{t.device.type for t in [x]} == {"cuda"}'),
    expression("types as a subset", '{t.device.type for t in [x]} <= {"cuda", "mps"}'),
    expression("cuda in the types", '"cuda" in {t.device.type for t in [x]}'),
    expression("cuda in a list of types", '"cuda" in [t.device.type for t in [x]]'),
    # -- text
    expression("search", '"cuda" in str(x.device)'),
    expression("search not", '"cuda" not in str(device)'),
    expression("search in f-string", '"cuda" in f"{device}"'),
    expression("search with colon", '"cuda:" in str(device)'),
    expression("startswith", 'str(device).startswith("cuda")'),
    expression("percent format", '("%s" % device).startswith("cuda")'),
    expression("percent format of one", '"%s" % (device,) == "cuda:0"'),
    expression("format method", '"{}".format(device) == "cuda:0"'),
    expression("format method numbered", '"{0}".format(device).startswith("cuda")'),
    expression("startswith colon", 'str(device).startswith("cuda:")'),
    expression("startswith of several", 'str(device).startswith(("cuda", "mps"))'),
    expression("type startswith", 'device.type.startswith("cuda")'),
    expression("find", 'str(device).find("cuda") >= 0'),
    expression("count", 'str(device).count("cuda")'),
    expression("index cut out", 'int("0" + str(device).replace("cuda:", "").replace("cpu", ""))'),
    expression("prefix removed", 'str(device).removeprefix("cuda:")'),
    # -- tables
    expression("literal table", '{"cuda": 1, "cpu": 2}[x.device.type]'),
    expression("a spread table", '{**{"cuda": 1}, "cpu": 2}[x.device.type]'),
    expression("in a spread table", 'device.type in {**{"cuda": 1}}'),
    expression("a spread table without it", 'device.type in {**{"cpu": 1}, "meta": 2}', "no"),
    expression("literal table get", '{"cuda": 1}.get(device.type, 0)'),
    expression("dict()", "dict(cuda=1, cpu=2)[device.type]"),
    # -- beside hpu
    expression("beside hpu in a tuple", 'device.type in ("cuda", "hpu")', "handled"),
    expression("beside hpu with or", 'device.type == "hpu" or device.type == "cuda"', "handled"),
    expression("beside hpu in a table", '{"cuda": 1, "cpu": 2, "hpu": 3}[device.type]', "handled"),
    expression(
        "beside hpu in a choice",
        '1 if device.type == "cuda" else 2 if device.type == "hpu" else 3',
        "handled",
    ),
    # -- no comparison of a device with CUDA
    expression("a setting", 'len(given) == "cuda"', "word"),
    expression("cpu", 'x.device.type == "cpu"', "no"),
    expression("a path", '"cuda" in ("/usr/local/" + given).split("/")', "no"),
    expression("a table by word", '{"cuda": 1}["cuda"]', "no"),
    expression("a table by another key", '{"cuda": 1}.get(len(given), 0)', "no"),
    expression("a longer word", 'device.type == "cuda_time"', "no"),
    expression("type of a tensor", '"cuda" in x.type()', "no"),
    expression("identity", "x.device is device", "no"),
    expression("option list", 'given in ("fp16", "cuda")', "word"),
]

PROGRAMS = [
    FormCase(
        "a name bound to the type",
        'def f(x, device, given):\n    kind = x.device.type\n    return kind == "cuda"\n',
    ),
    FormCase(
        "an attribute bound to the type",
        "class Holder:\n    def __init__(self, x):\n        self.where = x.device.type\n"
        '    def ask(self):\n        return self.where == "cuda"\n'
        "def f(x, device, given):\n    return Holder(x).ask()\n",
        lines=(5,),
    ),
    FormCase(
        "unpacked with the index",
        'def f(x, device, given):\n    kind, index = x.device.type, x.device.index\n    return kind == "cuda"\n',
    ),
    FormCase(
        "a loop over types",
        "def f(x, device, given):\n    for kind in [x.device.type]:\n"
        '        if kind == "cuda":\n            return 1\n    return 0\n',
        lines=(3,),
    ),
    FormCase(
        "a name for cuda",
        'CUDA = "cuda"\ndef f(x, device, given):\n    return x.device.type == CUDA\n',
    ),
    FormCase(
        "a chosen device",
        'def f(x, device, given):\n    wanted = "cuda" if len(given) > 3 else "cpu"\n    return x.device.type == wanted\n',
        lines=(3,),
    ),
    FormCase(
        "an enumeration",
        'import enum\nclass Kind(str, enum.Enum):\n    CUDA = "cuda"\n'
        "def f(x, device, given):\n    return x.device.type == Kind.CUDA\n",
    ),
    FormCase(
        "the value of an enumeration",
        'import enum\nclass Kind(enum.Enum):\n    CUDA = "cuda"\n'
        "def f(x, device, given):\n    return x.device.type == Kind.CUDA.value\n",
    ),
    FormCase(
        "a parameter of a helper",
        'def on_gpu(kind):\n    return kind == "cuda"\ndef f(x, device, given):\n    return on_gpu(x.device.type)\n',
        lines=(2,),
    ),
    FormCase(
        "a parameter with an annotation",
        'def on_gpu(where: "torch.device"):\n    return str(where).startswith("cuda")\n'
        "def f(x, device, given):\n    return on_gpu(device)\n",
        lines=(2,),
    ),
    FormCase(
        "what a helper returns",
        "def where(x):\n    return x.device.type\ndef f(x, device, given):\n    return where(x) == 'cuda'\n",
    ),
    FormCase(
        "a property of a device name",
        "class Holder:\n    def __init__(self, x):\n        self.x = x\n    @property\n    def device_type(self):\n"
        "        return self.x.device.type\n"
        'def f(x, device, given):\n    return Holder(x).device_type == "cuda"\n',
    ),
    FormCase(
        "a tuple by name",
        'GPUS = ("cuda", "xpu")\ndef f(x, device, given):\n    return x.device.type in GPUS\n',
    ),
    FormCase(
        "a tuple in a class",
        'class Policy:\n    GPUS = {"cuda", "xpu"}\n    def ask(self, x):\n        return x.device.type in self.GPUS\n'
        "def f(x, device, given):\n    return Policy().ask(x)\n",
        lines=(4,),
    ),
    FormCase(
        "a collection from elsewhere",
        'import types\nelsewhere = types.SimpleNamespace(GPUS=["cuda"])\n'
        "def f(x, device, given):\n    return x.device.type in elsewhere.GPUS\n",
    ),
    FormCase(
        "a table by name",
        'TABLE = {"cuda": 1, "cpu": 2}\ndef f(x, device, given):\n    return TABLE[device.type]\n',
    ),
    FormCase(
        "a table by name, get",
        'TABLE = {"cuda": 1}\ndef f(x, device, given):\n    return TABLE.get(device.type, 0)\n',
    ),
    FormCase(
        "a table that grows",
        'TABLE = {"cpu": 2}\nTABLE["cuda"] = 1\ndef f(x, device, given):\n    return TABLE[device.type]\n',
    ),
    FormCase(
        "a table from elsewhere",
        'import types\nelsewhere = types.SimpleNamespace(TABLE={"cuda": 1, "cpu": 2})\n'
        "def f(x, device, given):\n    return elsewhere.TABLE[x.device.type]\n",
    ),
    FormCase(
        "a table from elsewhere, get with default",
        'import types\nelsewhere = types.SimpleNamespace(TABLE={"cuda": 1})\n'
        "def f(x, device, given):\n    return elsewhere.TABLE.get(x.device.type, 7)\n",
    ),
    FormCase(
        "match",
        'def f(x, device, given):\n    match device.type:\n        case "cuda":\n            return 1\n'
        '        case "cpu" | "mps":\n            return 2\n    return 3\n',
        lines=(2,),
    ),
    FormCase(
        "match several",
        'def f(x, device, given):\n    match x.device.type:\n        case "xpu" | "cuda":\n            return 1\n'
        "        case _:\n            return 2\n",
        lines=(2,),
    ),
    FormCase(
        "match a pair",
        'def f(x, device, given):\n    match (device.type, device.index):\n        case ("cuda", 0):\n            return 1\n'
        "        case _:\n            return 2\n",
        lines=(2,),
    ),
    FormCase(
        "match an attribute",
        'def f(x, device, given):\n    match device:\n        case Device(type="cuda"):\n            return 1\n'
        "        case _:\n            return 2\n",
        lines=(2,),
    ),
    FormCase(
        "regular expression",
        'import re\ndef f(x, device, given):\n    return bool(re.match(r"cuda(:\\d+)?$", str(device)))\n',
    ),
    FormCase(
        "compiled regular expression",
        'import re\nPATTERN = re.compile(r"cuda:(\\d+)")\ndef f(x, device, given):\n    return bool(PATTERN.match(str(device)))\n',
    ),
    FormCase(
        "fnmatch",
        'import fnmatch\ndef f(x, device, given):\n    return fnmatch.fnmatch(str(device), "cuda*")\n',
    ),
    FormCase(
        "operator.eq",
        'import operator\ndef f(x, device, given):\n    return operator.eq(x.device.type, "cuda")\n',
    ),
    FormCase(
        "assertEqual",
        'import unittest\ndef f(x, device, given):\n    try:\n        unittest.TestCase().assertEqual(x.device.type, "cuda")\n'
        "    except AssertionError:\n        return False\n    return True\n",
        lines=(4,),
    ),
    FormCase(
        "assertIn",
        'import unittest\ndef f(x, device, given):\n    try:\n        unittest.TestCase().assertIn("cuda", str(x.device))\n'
        "    except AssertionError:\n        return False\n    return True\n",
        lines=(4,),
    ),
    FormCase(
        "over several lines",
        'def f(x, device, given):\n    return (x.device\n            .type == "cuda")\n',
        lines=(2,),
    ),
    FormCase(
        "with hpu elsewhere in the file",
        'NAMES = ["hpu", "cuda"]\n"""Runs on hpu."""\ndef f(x, device, given):\n    return x.device.type == "cuda"\n',
    ),
    FormCase(
        "with an hpu branch",
        'def f(x, device, given):\n    if device.type == "cuda":\n        return 1\n'
        '    elif device.type == "hpu":\n        return 2\n    return 3\n',
        "handled",
        lines=(2,),
    ),
    FormCase(
        "with an hpu branch that returns",
        'def f(x, device, given):\n    if device.type == "cuda":\n        return 1\n'
        '    if device.type == "hpu":\n        return 2\n    return 3\n',
        "handled",
        lines=(2,),
    ),
    FormCase(
        "match with an hpu case",
        'def f(x, device, given):\n    match device.type:\n        case "cuda":\n            return 1\n'
        '        case "hpu":\n            return 2\n    return 3\n',
        "handled",
        lines=(2,),
    ),
    FormCase(
        "a table that has its own entry for hpu",
        'TABLE = {"cuda": 1, "hpu": 3}\ndef f(x, device, given):\n    return TABLE.get(x.device.type)\n',
        "handled",
    ),
    FormCase(
        "a name bound twice, once to a type",
        'def f(x, device, given):\n    kind = given\n    kind = x.device.type\n    return kind == "cuda"\n',
    ),
    FormCase(
        "a name of another function",
        'def other(x):\n    kind = x.device.type\n    return kind\ndef f(x, device, given):\n    kind = given\n    return kind == "cuda"\n',
        "word",
        lines=(6,),
    ),
]

FORMS = [
    *EXPRESSIONS,
    *PROGRAMS,
    *FURTHER_EXPRESSIONS,
    *FURTHER_PROGRAMS,
    *HELD_FORMS,
    *INSIDE_EXPRESSIONS,
]
