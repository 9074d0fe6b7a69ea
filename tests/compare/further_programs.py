"""Further forms that need more than an expression: collections and tables that are filled, functions that compare when they are called."""

from __future__ import annotations

from form_case import FormCase

FURTHER_PROGRAMS = [
    FormCase(
        "groups get",
        "def f(x, device, given):\n"
        "    g = {}\n"
        "    for t in [x]:\n"
        "        g.setdefault(t.device.type, []).append(1)\n"
        '    return g.get("cuda")\n',
        lines=(4, 5),
    ),
    FormCase(
        "groups default",
        "from collections import defaultdict\n"
        "def f(x, device, given):\n"
        "    g = defaultdict(list)\n"
        "    for t in [x]:\n"
        "        g[t.device.type].append(1)\n"
        '    return g["cuda"]\n',
        lines=(5, 6),
    ),
    FormCase(
        "groups in",
        "from collections import defaultdict\n"
        "def f(x, device, given):\n"
        "    g = defaultdict(list)\n"
        "    for t in [x]:\n"
        "        g[str(t.device)].append(1)\n"
        '    return "cuda:0" in g\n',
        lines=(5, 6),
    ),
    FormCase(
        "counter",
        "from collections import Counter\n"
        "def f(x, device, given):\n"
        "    c = Counter(t.device.type for t in [x])\n"
        '    return c["cuda"]\n',
        lines=(4,),
    ),
    FormCase(
        "counter get",
        "from collections import Counter\n"
        "def f(x, device, given):\n"
        "    c = Counter()\n"
        "    c[x.device.type] += 1\n"
        '    return c.get("cuda", 0)\n',
        lines=(4, 5),
    ),
    FormCase(
        "groupby",
        "from itertools import groupby\n"
        "def f(x, device, given):\n"
        '    return {k: len(list(v)) for k, v in groupby([x], key=lambda t: t.device.type)}.get("cuda")\n',
        lines=(3,),
        follows=True,
    ),
    FormCase(
        "items attr",
        "class H:\n"
        "    def __init__(self):\n"
        "        self.by = {}\n"
        "    def add(self, x):\n"
        "        self.by[x.device.type] = x\n"
        "    def has(self):\n"
        '        return "cuda" in self.by\n'
        "def f(x, device, given):\n"
        "    h = H()\n"
        "    h.add(x)\n"
        "    return h.has()\n",
        lines=(5, 7),
    ),
    FormCase(
        "attr get",
        "class H:\n"
        "    def __init__(self):\n"
        "        self.by = {}\n"
        "    def add(self, x):\n"
        "        self.by[x.device.type] = 1\n"
        "    def has(self):\n"
        '        return self.by.get("cuda")\n'
        "def f(x, device, given):\n"
        "    h = H()\n"
        "    h.add(x)\n"
        "    return h.has()\n",
        lines=(5, 7),
    ),
    FormCase(
        "partial eq",
        "from functools import partial\n"
        "from operator import eq\n"
        'is_cuda = partial(eq, "cuda")\n'
        "def f(x, device, given):\n"
        "    return is_cuda(x.device.type)\n",
        lines=(3,),
    ),
    FormCase(
        "partial eq filter",
        "from functools import partial\n"
        "import operator\n"
        "def f(x, device, given):\n"
        '    return list(filter(partial(operator.eq, "cuda"), [x.device.type])) != []\n',
        lines=(4,),
    ),
    FormCase(
        "bound eq map",
        'def f(x, device, given):\n    return any(map("cuda".__eq__, [x.device.type]))\n',
        lines=(2,),
    ),
    FormCase(
        "methodcaller",
        "import operator\n"
        "def f(x, device, given):\n"
        '    return operator.methodcaller("startswith", "cuda")(str(x.device))\n',
        lines=(3,),
    ),
    FormCase(
        "methodcaller named",
        "from operator import methodcaller\n"
        'on = methodcaller("startswith", "cuda")\n'
        "def f(x, device, given):\n"
        "    return on(str(x.device))\n",
        lines=(2,),
    ),
    FormCase(
        "attrgetter map",
        "from operator import attrgetter\n"
        "def f(x, device, given):\n"
        '    return "cuda" in map(attrgetter("device.type"), [x])\n',
        lines=(3,),
    ),
    FormCase(
        "getattr dispatch",
        "class A:\n"
        "    def run_cuda(self): return 1\n"
        "    def run_cpu(self): return 2\n"
        "def f(x, device, given):\n"
        '    return getattr(A(), f"run_{x.device.type}")()\n',
        lines=(5,),
    ),
    FormCase(
        "getattr dispatch def",
        "class A:\n"
        "    def run_cuda(self): return 1\n"
        "    def run(self): return 2\n"
        "def f(x, device, given):\n"
        "    a = A()\n"
        '    return getattr(a, "run_" + x.device.type, a.run)()\n',
        lines=(6,),
    ),
    FormCase(
        "globals dispatch",
        "def run_cuda(): return 1\n"
        "def run_cpu(): return 2\n"
        "def f(x, device, given):\n"
        '    return globals()["run_" + x.device.type]()\n',
        lines=(4,),
    ),
    FormCase(
        "path",
        'T = {"model.cuda.pt": 1, "model.cpu.pt": 2}\n'
        "def f(x, device, given):\n"
        '    return T[f"model.{x.device.type}.pt"]\n',
        lines=(3,),
    ),
    FormCase(
        "re split",
        "import re\n"
        "def f(x, device, given):\n"
        '    return re.split("[:]", str(x.device))[0] == "cuda"\n',
        lines=(3,),
        follows=True,
    ),
    FormCase(
        "re sub",
        "import re\n"
        "def f(x, device, given):\n"
        '    return re.sub(r":\\d+", "", str(x.device)) == "cuda"\n',
        lines=(3,),
        follows=True,
    ),
    FormCase(
        "fnmatch filter",
        "import fnmatch\n"
        "def f(x, device, given):\n"
        '    return fnmatch.filter([str(x.device)], "cuda*") != []\n',
        lines=(3,),
    ),
    FormCase(
        "config str2",
        "def f(x, device, given):\n"
        '    cfg = {"where": str(x.device)}\n'
        '    return cfg["where"].startswith("cuda")\n',
        lines=(3,),
    ),
    FormCase(
        "endswith name",
        "def f(x, device, given):\n"
        '    tag = f"bench_{x.device.type}"\n'
        '    return tag.endswith("cuda")\n',
        lines=(3,),
    ),
    FormCase(
        "endswith param",
        "def has(tag):\n"
        '    return tag.endswith("cuda")\n'
        "def f(x, device, given):\n"
        '    return has("bench_" + x.device.type)\n',
        lines=(2,),
    ),
    FormCase(
        "startswith other",
        "class A:\n"
        "    def __init__(self, tag): self.tag = tag\n"
        "    def has(self):\n"
        '        return self.tag.startswith("cuda")\n'
        "def f(x, device, given):\n"
        "    return A(str(x.device)).has()\n",
        lines=(4,),
    ),
    FormCase(
        "print",
        "import io, contextlib\n"
        "def f(x, device, given):\n"
        "    b = io.StringIO()\n"
        "    print(x.device, file=b)\n"
        '    return b.getvalue().strip() == "cuda:0"\n',
        lines=(5,),
        holds="word",
        follows=True,
    ),
    FormCase(
        "set loop",
        "def f(x, device, given):\n"
        "    seen = set()\n"
        "    for t in [x]:\n"
        "        seen.add(t.device.type)\n"
        '    return "cuda" in seen\n',
        lines=(5,),
    ),
    FormCase(
        "list loop",
        "def f(x, device, given):\n"
        "    seen = []\n"
        "    for t in [x]:\n"
        "        seen.append(str(t.device))\n"
        '    return "cuda:0" in seen\n',
        lines=(5,),
    ),
    FormCase(
        "set loop eq",
        "def f(x, device, given):\n"
        "    seen = set()\n"
        "    for t in [x]:\n"
        "        seen.add(t.device.type)\n"
        '    return seen == {"cuda"}\n',
        lines=(5,),
    ),
    FormCase(
        "enum by value",
        "import enum\n"
        "class K(enum.Enum):\n"
        '    CUDA = "cuda"\n'
        '    CPU = "cpu"\n'
        "def f(x, device, given):\n"
        "    return K(x.device.type) is K.CUDA\n",
        lines=(6,),
    ),
    FormCase(
        "strenum",
        "import enum\n"
        "class K(str, enum.Enum):\n"
        '    CUDA = "cuda"\n'
        '    CPU = "cpu"\n'
        "def f(x, device, given):\n"
        "    return K(x.device.type) == K.CUDA\n",
        lines=(6,),
    ),
    FormCase(
        "class attr by type",
        "class T:\n"
        "    cuda = 1\n"
        "    cpu = 2\n"
        "def f(x, device, given):\n"
        "    return getattr(T, x.device.type)\n",
        lines=(5,),
    ),
    FormCase(
        "hasattr",
        "import types\n"
        "torchlike = types.SimpleNamespace(cuda=1)\n"
        "def f(x, device, given):\n"
        "    return hasattr(torchlike, x.device.type)\n",
        lines=(4,),
    ),
    FormCase(
        "string const mod",
        'SUPPORTED = "cuda|mps"\n'
        "import re\n"
        "def f(x, device, given):\n"
        "    return bool(re.match(SUPPORTED, x.device.type))\n",
        lines=(4,),
    ),
    FormCase(
        "re compiled attr",
        "import re\n"
        "class A:\n"
        '    P = re.compile("^cuda")\n'
        "    def has(self, x):\n"
        "        return bool(self.P.search(str(x.device)))\n"
        "def f(x, device, given):\n"
        "    return A().has(x)\n",
        lines=(5,),
    ),
    FormCase(
        "str.startswith unbound",
        'def f(x, device, given):\n    return str.startswith(str(x.device), "cuda")\n',
        lines=(2,),
    ),
    FormCase(
        "any startswith names",
        'NAMES = ("cuda", "mps")\n'
        "def f(x, device, given):\n"
        "    return str(x.device).startswith(NAMES)\n",
        lines=(3,),
    ),
    FormCase(
        "startswith tuple()",
        'NAMES = ["cuda", "mps"]\n'
        "def f(x, device, given):\n"
        "    return str(x.device).startswith(tuple(NAMES))\n",
        lines=(3,),
    ),
    FormCase(
        "const const",
        'PREFIX = "cuda:"\n'
        "def f(x, device, given):\n"
        "    s = str(x.device)\n"
        "    return int(s[len(PREFIX):]) if s.startswith(PREFIX) else -1\n",
        lines=(4, 4),
    ),
    FormCase(
        "count up",
        "def f(x, device, given):\n"
        '    n = {"cpu": 0, "cuda": 0}\n'
        "    n[x.device.type] += 1\n"
        '    return n["cuda"]\n',
        lines=(3, 4),
    ),
    FormCase(
        "entry written",
        "def f(x, device, given):\n"
        '    n = {"cpu": 0, "cuda": 0}\n'
        "    n[x.device.type] = 5\n"
        '    return n["cuda"]\n',
        lines=(3, 4),
    ),
    FormCase(
        "entry removed",
        "def f(x, device, given):\n"
        '    n = {"cpu": 0, "cuda": 0}\n'
        "    del n[x.device.type]\n"
        "    return sorted(n)\n",
        lines=(3,),
    ),
]
