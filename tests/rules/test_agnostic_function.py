"""The function of the agnostic style that gives the device: where it is defined, and who imports it."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from agnostic import DEFAULT, FUNCTION, body, written, written_for

from hpushim.engine.project import migrate, undo
from hpushim.model import Target


def test_the_function_is_defined_once_above_its_uses() -> None:
    text = written("from torch import nn\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g():\n    return nn.Linear(2, 2).cuda()\n").text  # fmt: skip
    assert text.count(FUNCTION) == 1 and text.count("import torch\n") == 1
    assert text.index("import torch\n") < text.index(FUNCTION) < text.index("def f")


@pytest.mark.parametrize("gap", ["", "\n", "\n\n", "\n\n\n"])
@pytest.mark.parametrize("between", ["", "A = 3\n", "# about f\n", "try:\n    import a\nexcept ImportError:\n    a = None\n"])  # fmt: skip
def test_the_function_stands_between_two_empty_lines(gap: str, between: str) -> None:
    uses = "def f(x):\n    return x.cuda()\ndef g(x):\n    return x.cuda()\n"
    for start in ("import torch\n", '"""Text."""\nimport os\nimport torch\nimport a\n'):
        text = written(start + between + gap + uses).text
        above, below = text.split(FUNCTION)
        assert above.endswith("\n\n\n") and not above.endswith("\n" * 4)
        assert below.startswith("\n\n") and below.lstrip("\n").startswith(("def f", "# about f"))


SCRIPTS = {
    "utils.py": "import os\nimport torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
    "train.py": "import torch\nimport utils\n\n\ndef f(x):\n    return x.cuda()\n",
    "test.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
    "tool/run.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
}  # fmt: skip


@pytest.mark.parametrize("heavy", [False, True])
def test_scripts_share_what_is_light_beside_them(tmp_path: Path, heavy: bool) -> None:
    for path, text in SCRIPTS.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("import cv2\n" + text if heavy else text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in SCRIPTS}
    shared = [
        path for path, text in after.items() if "from utils import accelerator_device" in text
    ]
    assert shared == (["train.py"] if heavy else ["train.py", "test.py"]) * (not heavy)
    assert ("def accelerator_device" in after["utils.py"]) is not heavy


PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
    "pkg/train.py": "import torch\n\nfrom .utils import seed\n\n\ndef f(x):\n    seed(1)\n    return x.cuda()\n",
    "pkg/test.py": "import torch\n\nfrom pkg import utils\n\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n",
    "pkg/alone.py": "import torch\n\n\ndef f(x):\n    return x.cuda()\n",
}  # fmt: skip


@pytest.mark.parametrize("change", [{}, {"pkg/alone.py": None}, {"pkg/utils.py": PACKAGE["pkg/utils.py"].replace("import torch\n", "import torch\n\nfrom . import train\n")}, {"pkg/utils.py": "import numpy\n\n\ndef seed(n):\n    numpy.random.seed(n)\n"}])  # fmt: skip
def test_one_file_of_a_package_has_the_function(tmp_path: Path, change: dict[str, str | None]) -> None:  # fmt: skip
    files = {path: text for path, text in (PACKAGE | change).items() if text is not None}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    report = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    asked = [path for path, text in after.items() if "from .utils import" in text and DEFAULT[:-2] in text]  # fmt: skip
    if "from . import train" in files["pkg/utils.py"]:
        assert "def accelerator_device" not in after["pkg/utils.py"]
    else:
        assert sum("def accelerator_device" in text for text in after.values()) == 1
        assert "from .utils import seed, accelerator_device\n" in after["pkg/train.py"]
        assert "from pkg.utils import accelerator_device\n" in after["pkg/test.py"]
        assert asked == ["pkg/train.py"]
        assert ("from .utils" in after.get("pkg/alone.py", "")) is False
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file for file in again.files if file.status == "changed"]
    (tmp_path / "pkg/new.py").write_text("import torch\n\nfrom .utils import seed\n\n\ndef f(x):\n    return x.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    if "def accelerator_device" in after["pkg/utils.py"]:
        assert "import seed, accelerator_device\n" in (tmp_path / "pkg/new.py").read_text()
    while undo(tmp_path).run:
        pass
    assert {path: (tmp_path / path).read_text() for path in files} == files
    assert report.files


def test_a_name_of_a_star_import_is_not_taken() -> None:
    text = written("import torch\nfrom settings import *\n\nx = torch.ones(2).cuda().to(accelerator_device())\n\n\ndef f(y):\n    return y.cuda()\n\n\ndef g(y):\n    return y.cuda()\n").text  # fmt: skip
    assert "def current_accelerator_device" in text and "def accelerator_device" not in text


HELPERS = "import os\n\n\ndef lines(path):\n    return open(path).readlines()\n"


USER = "import torch\nfrom utils import lines\n\n\ndef f(x):\n    return x.cuda()\n"


@pytest.mark.parametrize(
    ("files", "shared"),
    [
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER}, ["utils.py"]),
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER, "export.py": "from utils import lines\n"}, ["utils.py"]),
        ({"utils.py": HELPERS, "a.py": USER, "b.py": USER, "setup.py": "import setuptools\nfrom utils import lines\n"}, []),
        ({"utils.py": HELPERS.replace("import os\n", ""), "a.py": USER, "b.py": USER}, []),
        ({"lines.py": HELPERS, "a.py": USER.replace("utils", "lines"), "b.py": USER.replace("utils", "lines")}, []),
        # beside a module that is imported
        ({"util/lines.py": HELPERS, "util/show.py": USER.replace("from utils import lines\n", "") + USER[-30:].replace("f(", "g("), "a.py": USER.replace("utils", "util.lines")}, ["util/show.py"]),
        ({"util/lines.py": HELPERS, "util/show.py": "import cv2\n" + USER.replace("from utils import lines\n", "") + USER[-30:].replace("f(", "g("), "a.py": USER.replace("utils", "util.lines")}, ["util/show.py"]),
    ],
)  # fmt: skip
def test_a_module_of_helpers_gets_the_function(tmp_path: Path, files: dict[str, str], shared: list[str]) -> None:  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    assert [path for path, text in after.items() if "def accelerator_device" in text] == shared
    light = not any("import cv2" in text for text in after.values())
    asked = [path for path, text in after.items() if re.search("import.* accelerator_device", text)]
    assert asked == [path for path in ("a.py", "b.py") if path in files and shared and light]
    assert all("import torch\n" in after[path] for path in shared)
    again = migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    assert not [file for file in again.files if file.status == "changed"]
    alone = migrate([tmp_path / "a.py"], Target(style="agnostic"), allow_dirty=True)
    assert not [f for file in alone.files for f in file.findings if f.code == "HPU726"]


WITHOUT = ["if torch.cuda.is_available():\n    pass", "n = 2 if torch.cuda.device_count() > 0 else 1", 'd = "cpu" if host else x.device', 'd = torch.device("cpu") if host else x.device', 'p.add_argument("--device", default="cpu")', "if x.is_cuda:\n    pass"]  # fmt: skip


MOVES = ["def f(x):\n    return x.cuda()", 'def f(x):\n    return x.to("cuda")', 'def f():\n    return torch.ones(2, device="cuda")', 'def f(x):\n    return x.to(torch.device("cuda"))']  # fmt: skip


@pytest.mark.parametrize("without", ["", "print(torch.cuda.device_count())", 'x = torch.load(p, map_location="cpu")', *WITHOUT])  # fmt: skip
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("move", MOVES)
def test_the_cpu_takes_no_place_where_cuda_was_needed(tmp_path: Path, move: str, elsewhere: bool, without: str) -> None:  # fmt: skip
    (tmp_path / "a.py").write_text(f"import torch\n\n\n{move}\n" + "" if elsewhere else f"import torch\n\n\n{move}\n{without}\n")  # fmt: skip
    (tmp_path / "b.py").write_text(f"import torch\n\n{without}\n" if elsewhere else "")
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    text = (tmp_path / "a.py").read_text()
    assert ("no accelerator is available" in text) is (without not in WITHOUT)
    assert ('torch.device("cpu")' in text.replace(without, "")) is (without in WITHOUT)


def test_a_file_that_only_has_autocast_goes_on_without_an_accelerator() -> None:
    assert "raise" not in body(
        "def f(m):\n    with torch.cuda.amp.autocast():\n        return m.loss()"
    )


@pytest.mark.parametrize(("text", "free"), [("a = 3\n", True), ("def f(device):\n    device = 3\n", True), ("device = 3\n", False), ("if a:\n    device = 3\n", False), ("from torch import *\n", False), ("from x import device\n", False), ("class A:\n    device = 3\n\n    def f(self):\n        device = 4\n\n\nb = 3\n", True)])  # fmt: skip
@pytest.mark.parametrize("star", ["from settings import *", "from .settings import *", "from elsewhere import *"])  # fmt: skip
def test_a_star_import_is_asked_what_it_brings(tmp_path: Path, text: str, free: bool, star: str) -> None:  # fmt: skip
    (tmp_path / "settings.py").write_text(text)
    (tmp_path / "train.py").write_text(f"import torch\n{star}\n\nfor x in xs:\n    y = x.cuda()\n    z = x.cuda()\n")  # fmt: skip
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    kept = "z = x.to(device)" in (tmp_path / "train.py").read_text()
    assert kept is (free and "elsewhere" not in star)


@pytest.mark.parametrize("late", ["import math\n", "from typing import Union\n", "import torch.nn as nn\n"])  # fmt: skip
@pytest.mark.parametrize("top", ["import torch\n", "import os\n"])
def test_late_imports_do_not_draw_the_function_down(late: str, top: str) -> None:
    between = "" if top == "import torch\n" else "import torch\n"
    text = f"{top}\n\ndef f(x):\n    return x.cuda()\n\n\n{between}{late}\n\ndef g(x):\n    return x.cuda()\n"
    after = written(text).text
    assert (after.index(FUNCTION) < after.index("def f(")) is (top == "import torch\n")
    assert after.index("import torch\n") < after.index(FUNCTION)


#: What a file needs: the device or the CPU, or a device without which it fails.
KINDS = {
    "default_device": "def f(x):\n    return x.to('cuda' if torch.cuda.is_available() else 'cpu')\n\n\ndef g(x):\n    return x.to('cuda' if torch.cuda.is_available() else 'cpu')\n",
    "accelerator_device": "def f(x, cards):\n    return x.to(torch.device('cuda' if cards[0] >= 0 else 'cpu'))\n\n\ndef g(x, n):\n    return x.to(f'cuda:{n}')\n",
}  # fmt: skip


@pytest.mark.parametrize("torch_", ["torch==1.9.1\n", "torch\n"])
@pytest.mark.parametrize("own", ["", "device = torch.device('cpu')\n", "kind = 'cuda' if torch.cuda.is_available() else 'cpu'\n"])  # fmt: skip
@pytest.mark.parametrize("needs", [("default_device",) * 2, ("accelerator_device",) * 2, ("default_device", "accelerator_device") * 2, ("both",) * 2, ("default_device",) * 3 + ("both",) * 2])  # fmt: skip
def test_a_home_defines_what_its_users_need_and_nothing_else(tmp_path: Path, needs: tuple[str, ...], own: str, torch_: str) -> None:  # fmt: skip
    files = {"requirements.txt": torch_, "utils.py": f"import torch\n\n{own}\n\ndef seed(n):\n    torch.manual_seed(n)\n"}  # fmt: skip
    for at, kind in enumerate(needs):
        both = re.sub(r"\b([fg])\(", r"\1\1(", KINDS["default_device"]) + KINDS["accelerator_device"]  # fmt: skip
        files[f"a{at}.py"] = f"import torch\nimport utils\n\n\n{KINDS.get(kind, both)}"
    written_for(tmp_path, files, "")
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = {path: (tmp_path / path).read_text() for path in files}
    for name in KINDS:
        defined = [path for path, text in after.items() if f"def {name}(" in text]
        used = [path for path, text in after.items() if f"{name}()" in text.replace(f"def {name}()", "")]  # fmt: skip
        assert len(defined) <= 1 and bool(used) is bool(defined), name
        assert all(f" {name}\n" in after[path] or f" {name}," in after[path] for path in used if path not in defined), name  # fmt: skip
    assert all(text.count("from utils import") <= 1 for text in after.values())


#: Files that need a device, by whether the function of a helper module can give it: ``utils.py`` has it for those that need a function.
SHARING = {
    "def f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n": "needs",
    'device = "cuda" if torch.cuda.is_available() else "cpu"\n': "chooses",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n': "chooses",
    'def main():\n    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n    return device\n': "chooses",
    'device = torch.device("cuda" if torch.cuda.is_available() and many else "cpu")\n': "more",
}


@pytest.mark.parametrize("imports", ["import utils\n", "from utils import seed\n", ""])
@pytest.mark.parametrize("needs", [0, 1, 2])
@pytest.mark.parametrize("form", [form for form, kind in SHARING.items() if kind != "needs"])
def test_one_idiom_in_one_project(tmp_path: Path, form: str, needs: int, imports: str) -> None:
    """A file that only chooses takes the function which others share, and gets none for itself alone."""
    need = next(form for form, kind in SHARING.items() if kind == "needs")
    files = {"utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n"}
    files |= {f"need{n}.py": f"import torch\nimport utils\n\n\n{need}" for n in range(needs)}
    after = written_for(tmp_path, files, f"import torch\n{imports}\nmany = True\n{form}")
    taken = needs == 2 and SHARING[form] == "chooses"
    assert ("default_device()" in after) is taken
    assert ("if torch.accelerator.is_available()" in after) is not taken
    assert "def default_device" not in after


#: What needs the device when the file is loaded that gives it to others; and what comes first there.
LOADED = ('device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'device = "cuda" if torch.cuda.is_available() else "cpu"', "ones = torch.ones(2).cuda()", 'if torch.cuda.is_available():\n    ones = torch.ones(2, device="cuda")', 'mean = (torch.ones(2, device="cuda"), 1)', 'class Places:\n    first = torch.ones(1, device="cuda")', 'def at(x, place=torch.device("cuda" if torch.cuda.is_available() else "cpu")):\n    return x.to(place)')  # fmt: skip


@pytest.mark.parametrize(
    "above", ["", "many = 3\n\n\ndef once(x):\n    return x\n\n\n", '"""A text."""\n']
)
@pytest.mark.parametrize("loaded", LOADED)
def test_a_function_for_others_is_there_before_its_own_file_calls_it(tmp_path: Path, loaded: str, above: str) -> None:  # fmt: skip
    need = "def f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n"
    helper = f"{above}import torch\n\n{loaded}\n\n\ndef seed(n):\n    torch.manual_seed(n)\n"
    files = {f"need{n}.py": f"import torch\nimport utils\n\n\n{need}" for n in range(2)}
    for path, text in {**files, "utils.py": helper}.items():
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "utils.py").read_text()
    with contextlib.suppress(RuntimeError, AssertionError):  # there is no accelerator here
        exec(after, {"__name__": "utils"})
    assert "_device()" in after


@pytest.mark.parametrize("imports", ["from .part import f\n", "from pkg.part import f\n", "from pkg import part\n"])  # fmt: skip
def test_what_imports_nothing_of_its_own_finds_the_home_by_its_importers(tmp_path: Path, imports: str) -> None:  # fmt: skip
    need = "\n\ndef f(x):\n    return x.cuda()\n\n\ndef g(x):\n    return x.cuda()\n"
    files = {
        "pkg/__init__.py": "",
        "pkg/utils.py": "import torch\n\n\ndef seed(n):\n    torch.manual_seed(n)\n",
        "pkg/part.py": f"import torch\n{need}",
        "pkg/main.py": f"import torch\n{imports}from .utils import seed\n{need}",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    after = (tmp_path / "pkg/part.py").read_text()
    where = ".utils" if "from ." in imports else "pkg.utils"
    assert f"from {where} import accelerator_device\n" in after and "def accelerator" not in after


#: How a script gets the root of the project on its path, with the files beside it; ``after`` is what the import has to follow.
ROOTS = {
    "a statement": ("import sys\nimport torch\nsys.path.append('../..')\n", {}, "sys.path"),
    "under a condition": ("import sys\nimport torch\nif '../..' not in sys.path:\n    sys.path.insert(0, '../..')\n", {}, "sys.path.insert"),
    "a statement, then imports": ("import sys\nimport torch\nsys.path.insert(0, '../..')\nimport json\n", {}, "sys.path"),
    "its __init__": ("import __init__\nimport torch\n", {"__init__.py": "import sys\nsys.path.append('../..')\n"}, "__init__"),
    "a neighbour": ("import torch\nfrom logs import Logs\nfrom net import Net\n", {"net.py": "import sys\nsys.path.append('../..')\nimport utils.ckpt\nclass Net: ...\n"}, "from net"),
    "a neighbour behind others": ("import torch\nimport net\n", {"net.py": "import sys\nsys.path.append('../..')\nimport utils.ckpt\n"}, "import net"),
}  # fmt: skip


@pytest.mark.parametrize("early", ["", "device = torch.zeros(2).cuda()\n"])
@pytest.mark.parametrize("root", ROOTS)
def test_the_function_is_imported_behind_what_puts_its_folder_on_the_path(tmp_path: Path, root: str, early: str) -> None:  # fmt: skip
    head, beside, after = ROOTS[root]
    work = "\n\ndef f(x):\n    import utils.log\n    return x.cuda()\n\ndef g(y):\n    return y.cuda()\n"
    files = {
        "utils/__init__.py": "",
        "utils/ckpt.py": "import torch" + work.replace("    import utils.log\n", ""),
        "run/one/other.py": f"import sys\nsys.path.append('../..')\nimport torch\nfrom utils.ckpt import f\n{work}",
        "utils/log.py": "import json\n",
        "run/one/logs.py": "class Logs: ...\n",
        **{f"run/one/{name}": text for name, text in beside.items()},
        "run/one/train.py": head.replace("import torch\n", f"import torch\n{early}") + work + "\nif __name__ == '__main__':\n    g(f(1))\n",
    }  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(text)
    migrate([tmp_path], Target(style="agnostic"), allow_dirty=True)
    text = (tmp_path / "run/one/train.py").read_text()
    given = "from utils.ckpt import" in text
    assert "_device()" in text
    assert given or "def accelerator_device" in text or "def default_device" in text, text
    assert not given or text.index(after) < text.index("from utils.ckpt import"), text
    assert not given or not early or text.index("from utils.ckpt import") < text.index("device = "), text  # fmt: skip
    assert given or early, text
