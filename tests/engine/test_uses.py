"""What a project offers at most: functions, classes and methods of which no run comes to one by itself."""

from __future__ import annotations

import pytest
from crossed import crossed

from hpushim.engine.uses import Uses

OWN = "import torch\n\n\ndef traced(net, x):\n    return torch.jit.trace(net, x)\n"
#: Code of another file, and whether a run may come to `traced` by it.
USERS = {
    "from ours.graph import traced\n\nprint(traced(1, 2))\n": True,
    "from ours import graph\n\n\ndef run():\n    return graph.traced(1, 2)\n\n\nrun()\n": True,
    "import ours\n\nours.graph.traced(1, 2)\n": True,
    "from ours.graph import *\n\nCALL = traced\n": True,
    "def other(traced):\n    return traced.graph\n\n\nother(1)\n": False,
    "x = net.traced\n": False,
    "build(dict(type='traced'))\n": True,
    "build('traced on')\n": False,
    "from ours.graph import traced\n\n__all__ = ['traced']\n": False,
    'from ours.graph import traced\n\n\ndef run(x):\n    """Uses traced.\n\n    Or not traced.\n    """\n    return x\n\n\nrun(1)\n': False,
    "from ours.graph import traced\n\n\ndef export(x):\n    return traced(x, x)\n": False,
    "from ours.graph import traced\n\n\nclass Writer:\n    def add_graph(self, net):\n        self.write(traced(net, 1))\n\n\nWriter().close()\n": False,
    "from ours.graph import traced\n\n\nclass Writer:\n    def add_graph(self, net):\n        self.write(traced(net, 1))\n\n\nWriter().add_graph(2)\n": True,
    "from ours.graph import traced\n\n\nclass Net(Base):\n    def on_start(self, net):\n        self.write(traced(net, 1))\n\n\nNet()\n": True,
    "from ours.graph import traced\n\n\nclass Writer:\n    def __call__(self, net):\n        return traced(net, 1)\n\n\nWriter()(1)\n": True,
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("beside", ["", "def alone(traced):\n    return traced\n"])
def test_a_function_is_offered_where_nothing_comes_to_it(user: str, beside: str) -> None:
    uses = Uses([("ours/graph.py", OWN.encode()), ("ours/other.py", beside.encode()), ("main.py", user.encode())])  # fmt: skip
    assert uses.offered("ours/graph.py", "traced") is not USERS[user]


HEADS = {"class Writer:": True, "class Writer(object):": True, "class Writer():": True, "class Writer(Base):": False}  # fmt: skip
CALLS = {"Writer().close()": True, "Writer().add_graph(1)": False, "getattr(Writer(), 'add_graph')": False, "# add_graph\nWriter()": True}  # fmt: skip


@pytest.mark.parametrize(("head", "call"), crossed(HEADS, CALLS, rounds=4))
@pytest.mark.parametrize("method", ["add_graph", "__call__"])
def test_a_method_that_is_named_nowhere_is_not_called(head: str, call: str, method: str) -> None:
    text = f"import torch\n\n\n{head}\n    def {method}(self, net):\n        return torch.jit.trace(net)\n\n\n{call}\n"
    offered = Uses([("main.py", text.encode())]).offered("main.py", f"Writer.{method}")
    assert offered is (HEADS[head] and CALLS[call] and method == "add_graph")


TABLE = "from envs.tsp import Tsp\nfrom envs.dpp import Dpp\nfrom envs.op import Op\n\nTABLE = {\n    'tsp': Tsp,\n    'dpp': Dpp,\n    'op': Op,\n}\n"
#: What others say of a name, and whether one comes to it by itself.
NAMES = {
    "": False,
    "def make(name='dpp'):\n    return TABLE[name]()\n": True,
    "p.add_argument('--env', default='dpp')\n": True,
    "NAME: str = 'dpp'\n": True,
    "p.add_argument('--env', choices=['tsp', 'dpp', 'op'])\n": False,
    "make(name='dpp')\n": False,
    "if name == 'dpp':\n    size = 3\n": False,
}


@pytest.mark.parametrize("said", NAMES)
@pytest.mark.parametrize("few", [False, True])
def test_one_of_many_in_a_table_is_there_for_who_picks_it(said: str, few: bool) -> None:
    table = TABLE.replace("    'op': Op,\n", "") if few else TABLE
    own = "class Dpp(Env):\n    name = 'dpp'\n\n    def load(self):\n        return 1\n"
    uses = Uses([("envs/dpp.py", own.encode()), ("envs/__init__.py", table.encode()), ("main.py", said.encode())])  # fmt: skip
    assert uses.offered("envs/dpp.py", "Dpp") is not (few or NAMES[said])


#: Files of settings beside `env/dpp.yaml`, and whether a run takes that by itself.
SETTINGS = {
    ("env/tsp.yaml", "env/op.yaml"): False,
    ("env/tsp.yaml",): True,
    ("env/tsp.yaml", "env/op.yaml", "main.yaml:defaults:\n  - env: dpp\n"): True,
    ("env/tsp.yaml", "env/op.yaml", "main.yaml:defaults:\n  - env: tsp.yaml\n"): False,
    ("env/tsp.yaml", "env/op.yaml", "run.sh:python main.py --config configs/env/dpp.yaml\n"): True,
    ("env/tsp.yaml", "env/op.yaml", "x/a.yaml:- override /env: dpp\n", "x/b.yaml", "x/c.yaml"): False,
    ("env/tsp.yaml:_target_: envs.dpp.Dpp\n", "env/op.yaml"): True,
}  # fmt: skip


@pytest.mark.parametrize("given", SETTINGS)
def test_one_of_many_files_of_settings_is_there_for_who_picks_it(given: tuple[str, ...]) -> None:
    files = [("envs/dpp.py", b"class Dpp(Env):\n    pass\n"), ("configs/env/dpp.yaml", b"_target_: envs.dpp.Dpp\n")]  # fmt: skip
    for each in given:
        path, _, text = each.partition(":")
        files.append((f"configs/{path}", text.encode()))
    assert Uses(files).offered("envs/dpp.py", "Dpp") is not SETTINGS[given]


#: Who calls a method, and whether a run may come to it.
CALLERS = {
    "def make(agent):\n    return Space(agent).shared()\n": False,
    "class Remote:\n    def make(self, agent):\n        return Space(agent).shared()\n": False,
    "def make(agent):\n    return Space(agent).shared()\n\n\nmake(1)\n": True,
    "class Remote:\n    def make(self, agent):\n        return Space(agent).shared()\n\n\nRemote().make(1)\n": True,
    "class Remote:\n    def make(self, agent):\n        return Space(agent).shared()\n\n    def close(self):\n        pass\n\n\nRemote().close()\n": False,
    "make = Space(1).shared()\n": True,
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("inner", ["Shared(self)", "self.of(Shared)"])
def test_what_a_method_alone_uses_that_is_called_where_no_run_comes(caller: str, inner: str) -> None:  # fmt: skip
    own = f"class Shared:\n    def __init__(self, x):\n        x.share_memory_()\n\n\nclass Space:\n    def shared(self):\n        return {inner}\n\n    def go(self):\n        return 1\n\n\nSpace().go()\n"
    uses = Uses([("space.py", own.encode()), ("remote.py", b"from space import Space\n\n\n" + caller.encode())])  # fmt: skip
    assert uses.offered("space.py", "Space.shared") is not CALLERS[caller]
    assert uses.offered("space.py", "Shared") is not CALLERS[caller]
    assert not uses.offered("space.py", "Space")


#: What another file says of ``lib/compat.py``, and whether it may be loaded for that.
SAYS = {
    ("a.py", "import lib.compat\n"): True,
    ("a.py", "from .compat import x\n"): True,
    ("a.py", "from lib import (\n    compat,\n    net,\n)\n"): True,
    ("a.py", "from lib import net\n"): False,
    ("a.py", "make('compat')\n"): True,
    ("a.py", "make('lib.compat.Net')\n"): True,
    ("a.py", "# compat\nx = 'not compat but others'\n"): False,
    ("a.py", "x = compatible\n"): False,
    ("a.yaml", "_target_: lib.compat.Net\n"): True,
    ("a.yaml", "x: compatible\n"): False,
    ("a.sh", "python -m lib.compat\n"): True,
}


@pytest.mark.parametrize("said", SAYS)
@pytest.mark.parametrize("name", ["lib/compat.py", "lib/compat/__init__.py"])
def test_a_file_that_no_other_names(said: tuple[str, str], name: str) -> None:
    files = [(name, b"import torch\n\ncompat = 1\n"), ("lib/net.py", b"x = 1\n"), (said[0], said[1].encode())]  # fmt: skip
    assert Uses(files).idle(name) is not SAYS[said]


#: Where a class is made, and whether a run does so that gives no option.
MADE = {
    "if args.profile:\n        hooks.append(Hook())": False,
    "if args.profile and rank == 0:\n        hooks.append(Hook())": False,
    "if self.args.profile:\n        for x in y:\n            hooks.append(Hook())": False,
    "if args.fast:\n        hooks.append(Hook())": True,
    "if args.use_cuda:\n        hooks.append(Hook())": True,
    "if not args.profile:\n        hooks.append(Hook())": True,
    "if args.profile:\n        pass\n    hooks.append(Hook())": True,
    "if args.profile:\n        pass\n    else:\n        hooks.append(Hook())": True,
    "hooks.append(Hook())": True,
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("inner", ["profile(net)", "x = [profile(each) for each in net]"])
def test_what_is_made_under_an_option_that_is_off(made: str, inner: str) -> None:
    own = b"def profile(net):\n    return net\n"
    hook = f"from prof import profile\n\n\nclass Hook(Base):\n    def on_start(self, net):\n        {inner}\n".encode()
    main = f"from hook import Hook\n\n\ndef main(args):\n    hooks = []\n    {made}\n\n\nmain()\n".encode()
    uses = Uses([("prof.py", own), ("hook.py", hook), ("train.py", main)], {"profile"})
    assert uses.offered("prof.py", "profile") is not MADE[made]
    assert uses.offered("hook.py", "Hook") is not MADE[made]


SEVERAL = {
    "if len(gpus) > 1:": True, "if args.num_gpus > 1:": True, "if torch.cuda.device_count() > 1:": True, "if world_size > 1:": True, "if len(self.devices)>1:": True,
    "if args.n_gpu > 1:": True, "if args.gpu_mem > 1:": False, "if device_batch_size > 1:": False, "if per_device_train_batch_size > 1:": False, "if gpu_id > 1:": False,
    "if len(gpus) > 0:": False, "if epochs > 1:": False, "if len(gpus) > 1 or x:": False, "if len(gpus) >= 1:": False,
}  # fmt: skip


@pytest.mark.parametrize("asked", SEVERAL)
@pytest.mark.parametrize("after", ["", "\n    log()"])
def test_what_several_devices_need_is_offered(asked: str, after: str) -> None:
    texts = {"lib.py": "def spread(net):\n    return replicate(net)\n", "go.py": f"from lib import spread\n\ndef go(net, gpus):\n    {asked}\n        net = spread(net){after}\n\n\ngo(1, 2)\n"}  # fmt: skip
    assert Uses((name, text.encode()) for name, text in texts.items()).offered("lib.py", "spread") == SEVERAL[asked]  # fmt: skip
