"""Which files no training run needs."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import indent

import pytest

from hpushim.engine.links import Links, imported, optional
from hpushim.engine.project import analyse
from hpushim.model import Target

TRAINS = "import torch\nloss.backward()\n"
MAIN = 'import torch\nif __name__ == "__main__":\n    run()\n'
PLAIN = "import torch\n"


@pytest.mark.parametrize(
    ("files", "aside"),
    [
        # Without a file that trains only names tell.
        ({"a.py": PLAIN, "serve/b.py": MAIN, "tests/test_a.py": TRAINS}, {"tests/test_a.py"}),
        ({"lib/fit.py": TRAINS, "serve/b.py": PLAIN}, {"serve/b.py"}),
        ({"lib/fit.py": "from serve import b\n" + TRAINS, "serve/b.py": PLAIN}, set()),
        ({"lib/fit.py": TRAINS, "serve/b.py": "from lib.fit import x\n"}, set()),
        # A module may be loaded by its name, a program of another purpose is not.
        ({"lib/fit.py": TRAINS, "lib/b.py": PLAIN, "lib/c.py": MAIN}, {"lib/c.py"}),
        ({"train.py": TRAINS, "helper.py": PLAIN, "export.py": PLAIN}, {"export.py"}),
        ({"train.py": TRAINS, "setup.py": MAIN, "show.ipynb": "{}"}, {"show.ipynb"}),
        # An import of an installed package is none of a folder in another package.
        (
            {"lib/fit.py": "import data\n" + TRAINS, "z/p/__init__.py": "", "z/p/data.py": PLAIN},
            {"z/p/__init__.py", "z/p/data.py"},
        ),
        # A copy of another project trains for itself.
        (
            {"setup.py": "", "lib/fit.py": TRAINS, "dep/x/setup.py": "", "dep/x/t.py": TRAINS},
            {"dep/x/setup.py", "dep/x/t.py"},
        ),
        # Examples are none of the program, unless they are all there is, or it imports them.
        ({"lib/fit.py": TRAINS, "train_it.py": "from lib import fit\n" + MAIN, "examples/e.py": TRAINS}, {"examples/e.py"}),
        ({"lib/fit.py": TRAINS, "examples/e.py": "from lib import fit\n" + MAIN}, set()),
        ({"run.py": "from examples import e\n" + TRAINS, "examples/e.py": TRAINS, "examples/f.py": MAIN}, {"examples/f.py"}),
        # What a script of another purpose alone imports is of that purpose, where no file beside it is needed.
        ({"lib/fit.py": TRAINS, "lib/cli/show.py": "from lib.cli import text\n" + MAIN, "lib/cli/text.py": PLAIN, "lib/net/a.py": PLAIN}, {"lib/cli/show.py", "lib/cli/text.py"}),
        ({"lib/fit.py": "from lib.cli import b\n" + TRAINS, "lib/cli/show.py": "from lib.cli import text\n" + MAIN, "lib/cli/text.py": PLAIN, "lib/cli/b.py": PLAIN}, {"lib/cli/show.py"}),
        # Python runs a package before what is in it.
        ({"fit.py": "from lib.names import x\n" + TRAINS, "lib/__init__.py": "from . import net\n", "lib/names.py": PLAIN, "lib/net.py": "from .ops import f\n", "lib/ops/f.py": PLAIN, "lib/ops/test.py": "from f import x\n" + MAIN, "lib/ops/__init__.py": ""}, {"lib/ops/test.py"}),
        # Where modules are imported by names that are made, any may be.
        ({"run.py": "import_module(f'{where}.{name}')\n" + TRAINS, "models/a.py": PLAIN, "tools/b.py": MAIN}, {"tools/b.py"}),
        ({"run.py": "import_module('json.tool')\n" + TRAINS, "models/a.py": PLAIN}, {"models/a.py"}),
        # A script that is called after training trains, whatever does it.
        ({"train.py": "from lib import fit\n" + MAIN, "lib/fit.py": PLAIN, "lib/other/x.py": "loss.backward()\n" + PLAIN, "tools/b.py": MAIN}, {"tools/b.py"}),
        # Training is not what the program outside is for.
        ({"lib/fit.py": TRAINS, "scripts/look.py": "from lib import fit\n" + MAIN, "examples/e.py": "from lib import fit\n" + TRAINS}, {"scripts/look.py"}),
        # With the examples go their settings and commands, but not those of a program outside.
        ({"train.py": "from lib import fit\n" + MAIN, "lib/fit.py": TRAINS, "examples/e.py": "from lib import fit\n" + TRAINS, "examples/run.sh": "x"}, {"examples/e.py", "examples/run.sh"}),
        ({"train.py": "from lib import fit\n" + MAIN, "lib/fit.py": TRAINS, "examples/look.py": MAIN, "examples/run.sh": "x"}, {"examples/look.py"}),
        # Through a package a program takes only what it names.
        ({"lib/__init__.py": "from lib.fit import Fit\nfrom .net import Net\n", "lib/fit.py": TRAINS, "lib/net.py": PLAIN, "tools/show.py": "from lib import Net\n" + MAIN, "tools/run.py": "from lib import (\n  Fit,\n)\n" + MAIN}, {"tools/show.py"}),
        ({"lib/__init__.py": "from lib.fit import Fit\n", "lib/fit.py": TRAINS, "lib/net.py": PLAIN, "tools/show.py": "from lib import net\n" + MAIN, "tools/run.py": "import lib\n" + MAIN}, {"tools/show.py"}),
        # A folder of another framework is aside, whatever is in it; a file that imports both is torch's.
        ({"t/fit.py": TRAINS, "p/train.py": "import paddle\nif __name__ == '__main__':\n    run()\n", "p/net/a.py": "x = 1\n", "t/jax/b.py": "import jax\n", "t/jax/c.py": "x = 1\n"}, {"p/train.py", "p/net/a.py", "t/jax/b.py", "t/jax/c.py"}),
        ({"t/fit.py": TRAINS, "t/both/a.py": "import jax\nimport torch\n", "t/both/b.py": "import jax\n"}, set()),
        # What examples show of the package is the package's.
        ({"train.py": "from lib import fit\n" + MAIN, "lib/__init__.py": "", "lib/fit.py": TRAINS, "lib/net/a.py": PLAIN, "examples/e.py": "from lib import fit\nfrom lib.net import a\n" + MAIN}, {"examples/e.py"}),
        # Code for the devices of another maker, which the program may do without, and what it alone imports.
        ({"train.py": "from lib.dev import go\n" + TRAINS, "lib/dev.py": "try:\n    import torch_npu\nexcept ImportError:\n    pass\nif XPU:\n    from lib.xpu import go\n", "lib/xpu.py": "import torch\ntry:\n    import intel_extension_for_pytorch\nexcept ImportError:\n    pass\nfrom lib.hooks import a\nfrom lib.both import b\n", "lib/hooks.py": PLAIN, "lib/both.py": PLAIN, "lib/use.py": "from lib.both import b\n"}, {"lib/xpu.py", "lib/hooks.py"}),
        # Where modules are loaded by their names, a folder that a script of another purpose imports as a whole is that script's.
        ({"run.py": "import_module(f'nets.{name}')\n" + TRAINS, "show.py": "from view import a, b\nfrom nets import c\n" + MAIN, "view/a.py": PLAIN, "view/b.py": PLAIN, "nets/c.py": PLAIN, "nets/d.py": PLAIN}, {"show.py", "view/a.py", "view/b.py"}),
        # A kernel's gradient is no training, and tests of units are tests.
        ({"setup.py": "", "lib/__init__.py": "", "lib/ops.py": "import torch\nops.backward(grad.contiguous(),\n  x)\n", "lib/net.py": PLAIN, "run/train.py": "from lib.net import x\nloss.backward(retain_graph=True, inputs=x)\n" + MAIN, "show/a.py": "from lib import ops\n" + MAIN, "lib/unittests/b.py": MAIN}, {"show/a.py", "lib/unittests/b.py"}),
        # Beside a package that trains, what neither imports it nor is imported by it is another project.
        ({"setup.py": "", "lib/__init__.py": TRAINS, "tools/train.py": "import lib\n" + TRAINS, "papers/p/run.py": TRAINS}, {"papers/p/run.py"}),
        ({"setup.py": "", "src/lib/__init__.py": TRAINS, "tools/train.py": "import lib\n" + TRAINS, "papers/p/run.py": TRAINS}, {"papers/p/run.py"}),
        ({"lib/__init__.py": TRAINS, "papers/p/run.py": TRAINS}, set()),
        # So is a folder with requirements of its own, whatever is in it; not where the project as a whole has none.
        ({"requirements.txt": "torch\n", "lib/train.py": TRAINS, "other/environment.yml": "name: x\n", "other/train.py": TRAINS, "other/lib/net.py": PLAIN}, {"other/environment.yml", "other/train.py", "other/lib/net.py"}),
        ({"requirements.txt": "torch\n", "lib/train.py": TRAINS, "lib/requirements.txt": "torch\n"}, set()),
        ({"setup.py": "", "lib/train.py": TRAINS, "requirements/requirements.txt": "torch\n", "requirements/more.txt": "x\n"}, set()),
        ({"a/requirements.txt": "torch\n", "a/train.py": TRAINS, "b/requirements.txt": "torch\n", "b/fit.py": TRAINS}, set()),
        # Nor is one that imports from the package around it; it is an example of that.
        ({"setup.py": "", "lib/__init__.py": "", "lib/net.py": PLAIN, "examples/a/train.py": "from lib.net import x\n" + TRAINS, "examples/b/requirements.txt": "torch\n", "examples/b/run.py": "from lib.net import x\n" + TRAINS}, set()),
        # What takes something from the training is no training, unless it is called so or a command starts it, or nothing else does.
        ({"lib/fit.py": TRAINS, "train.py": "from lib import fit\n" + MAIN, "tools/robot.py": "from lib import fit\n" + MAIN}, {"tools/robot.py"}),
        ({"lib/fit.py": TRAINS, "train.py": "from lib import fit\n" + MAIN, "tools/robot.py": "from lib import fit\n" + MAIN, "run.sh": "python tools/robot.py\n"}, set()),
        ({"lib/fit.py": TRAINS, "train.py": "from lib import fit\n" + MAIN, "tools/predict.py": "from lib import fit\n" + MAIN, "run.sh": "python tools/predict.py\n"}, {"tools/predict.py", "run.sh"}),
        ({"lib/fit.py": TRAINS, "tools/robot.py": "from lib import fit\n" + MAIN, "tools/rover.py": "from lib import fit\n" + MAIN}, set()),
        # A script of a shell that starts such things alone, however far.
        ({"train.py": TRAINS, "show.py": MAIN, "a.sh": "python show.py\n", "b.sh": "bash a.sh\n", "c.sh": "bash a.sh\npython train.py\n", "d.sh": "bash c.sh\n", "e.sh": "echo x\n"}, {"show.py", "a.sh", "b.sh"}),
        # What modules need that may be loaded by their names is needed, whichever script imports it as well.
        ({"run.py": "from nets import make\n" + TRAINS, "nets/__init__.py": "import_module(f'nets.{name}')\n", "nets/a.py": "from ops.conv import b\n", "ops/conv/b.py": PLAIN, "show.py": "from ops.conv import b\n" + MAIN}, {"show.py"}),
        ({"a/Dockerfile": "FROM x\n", ".github/w.yml": "", ".ci.yml": "a: 1\n", "docker-compose.gpu.yaml": "a: 1\n", "train.py": TRAINS}, {"a/Dockerfile", ".github/w.yml", ".ci.yml", "docker-compose.gpu.yaml"}),
    ],
)  # fmt: skip
def test_what_no_training_run_needs(tmp_path: Path, files: dict[str, str], aside: set[str]) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = analyse([tmp_path], Target())
    assert {path for path in report.around if path in files} == aside


@pytest.mark.parametrize(
    ("files", "program"),
    [
        ({"lib/run.py": "from lib.fit import x\n" + MAIN, "lib/fit.py": TRAINS}, "lib/run.py"),
        # By its name before its folder, and before another that trains too.
        ({"main.py": "import fit\n" + MAIN, "lib/train.py": "import fit\n" + MAIN, "fit.py": TRAINS}, "lib/train.py"),
        ({"train.py": TRAINS, "eval/train_probe.py": TRAINS, "tests/train.py": TRAINS}, "train.py"),
        ({"run_training.py": TRAINS + MAIN, "run_training_again.py": "import run_training\n" + MAIN}, "run_training.py"),
        ({"train.py": TRAINS, "examples/train.py": TRAINS, "setup.py": MAIN}, "train.py"),
        # A program that loads by their names what trains is one; what is called otherwise is not.
        ({"main.py": "from nets import make\n" + MAIN, "nets/__init__.py": "import_module(f'nets.{name}')\n", "nets/a.py": TRAINS}, "main.py"),
        ({"show.py": "from nets import make\n" + MAIN, "nets/__init__.py": "import_module(f'nets.{name}')\n", "nets/a.py": TRAINS}, "nets/a.py"),
        # A script that trains nothing is none, where one does.
        ({"a.py": MAIN, "sub/fit.py": TRAINS}, "sub/fit.py"),
        ({"show.py": MAIN, "lib/b.py": PLAIN}, "show.py"),
        ({"lib/b.py": PLAIN}, ""),
        ({"tools/a.py": "import lib.fit\n" + MAIN, "examples/fine.py": "import lib.fit\n" + TRAINS, "lib/fit.py": TRAINS}, "examples/fine.py"),
        ({"demo.py": "import lib.fit\n" + MAIN, "lib/fit.py": TRAINS, "train.py": MAIN}, "train.py"),
        ({"main_fine.py": "import fit\n" + TRAINS + MAIN, "main.py": "import fit\n" + MAIN, "fit.py": TRAINS, "lib/run.py": "import fit\n" + MAIN}, "main.py"),
    ],
)  # fmt: skip
def test_the_program_that_a_person_would_start(
    tmp_path: Path, files: dict[str, str], program: str
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert analyse([tmp_path], Target()).program == program


@pytest.mark.parametrize(
    ("code", "maybe"),
    [
        ("import a\n", False),
        ("def f():\n    import a\n", False),  # nobody knows whether it is called
        ("if x:\n    import a\n", True),
        ("def f():\n    if x:\n        import a\n", True),
        ("if x:\n    y = 1\nelif z:\n    import a\n", True),
        ("if x:\n    y = 1\nelse:\n    import a\n", True),
        ("if x:\n    y = 1\nimport a\n", False),
        ("if __name__ == '__main__':\n    import a\n", False),
        ("match x:\n    case 1:\n        import a\n", True),
        ("try:\n    import a\nexcept ImportError:\n    a = None\n", True),
        ("try:\n    import a\nexcept ImportError:\n    print('no a')\n    raise\n", False),
        ("try:\n    import a\nexcept ImportError as e:\n    sys.exit(1)\n", False),
        ("try:\n    import a\nfinally:\n    x = 1\n", False),
        ("try:\n    import b\nexcept ImportError:\n    import a\n", False),
        ("try:\n    import b\nexcept ImportError:\n    pass\nelse:\n    import a\n", False),
        ("for x in y:\n    import a\nelse:\n    pass\n", False),
        ("if x:\n    import a\nimport a\n", False),
        ("if x:\n    import a\nelse:\n    raise E\n", False),
        ("def f():\n    if x:\n        return\n    import a\n", True),
        (
            "def f():\n    try:\n        x()\n    except E:\n        return None\n    y()\n    import a\n",
            True,
        ),
        ("async def f():\n    if x:\n        return\n    with y:\n        import a\n", True),
        ("def f():\n    def g():\n        return 1\n    import a\n", False),
        ("def f():\n    if x:\n        return\n\ndef g():\n    import a\n", False),
    ],
)
def test_which_imports_a_file_may_do_without(code: str, maybe: bool) -> None:
    data = b"\n" + code.encode()
    assert ("a", "") in imported(data)
    assert (("a", "") in optional(data)) == maybe


#: What imports a package or ends, and what is around it: whether the program may do without it then.
ENDS = ["if y:\n    import a\nelse:\n    raise E\n", "if y:\n    import a\nelse:\n    print(1)\n    raise SystemExit(1)\n", "try:\n    import a\nexcept ImportError:\n    raise E\n", "try:\n    import a\nfinally:\n    y = 1\n"]  # fmt: skip
AROUND = {
    "{0}": False,
    "with x:\n{1}": False,
    "def f():\n{1}": False,
    "if __name__ == '__main__':\n{1}": False,
    "if x:\n{1}": True,
    "if x:\n    z = 1\nelse:\n{1}": True,
    "if x:\n    with z:\n{2}": True,
    "match x:\n    case 1:\n{2}": True,
    "def f():\n    if x:\n        return 1\n{1}": True,
    "try:\n{1}except E:\n    a = None\n": True,
    "try:\n    if x:\n{2}except E:\n    a = None\n": True,
    "try:\n{1}except E:\n    raise\n": False,
    "try:\n    try:\n{2}    finally:\n        z = 1\nexcept E:\n    a = None\n": True,
    "try:\n    try:\n{2}    except F:\n        raise E\nexcept E:\n    a = None\n": True,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("ends", ENDS)
def test_what_is_around_an_end_decides_as_well(ends: str, around: str) -> None:
    code = around.format(ends, indent(ends, " " * 4), indent(ends, " " * 8))
    ast.parse(code)
    assert (("a", "") in optional(b"\n" + code.encode())) is AROUND[around]


def test_what_a_program_cannot_do_without() -> None:
    asked = {
        "run.py": [("lib.net", "Net"), ("lib.fast", "")],
        "lib/__init__.py": [],
        "lib/net.py": [("lib.ops", "f")],
        "lib/ops.py": [],
        "lib/fast.py": [("lib.kernel", ""), ("lib.ops", "")],
        "lib/kernel.py": [],
    }
    links = Links(asked, {"run.py": [("lib.fast", "")]})
    assert links.needs({"run.py"}) == {*asked}
    assert links.certain({"run.py"}) == {*asked} - {"lib/fast.py", "lib/kernel.py"}


def test_programs_beside_each_other_reach_what_any_of_them_imports(tmp_path: Path) -> None:
    files = {"s1_train.py": "import a\n" + TRAINS, "s2_train.py": "import b\n" + TRAINS, "more/train.py": "import c\n" + TRAINS, "fit.py": "import d\n" + TRAINS, **{f"{n}.py": PLAIN for n in "abcd"}}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    report = analyse([tmp_path], Target())
    assert (report.program, report.reached) == ("s1_train.py", {"s1_train.py", "s2_train.py", "a.py", "b.py"})  # fmt: skip


@pytest.mark.parametrize("number", [1, 2, 3, 9])
@pytest.mark.parametrize("way", ["shared", "other", "first", "most"])
@pytest.mark.parametrize("named", ["", "python m0.py\n"])
def test_what_few_of_the_programs_need_is_by_choice(tmp_path: Path, number: int, way: str, named: str) -> None:  # fmt: skip
    """Of programs that nothing else sets apart, the one that a person would start and the others."""
    users = {"shared": range(number), "other": [number - 1], "first": [0], "most": range(number // 2, number)}[way]  # fmt: skip
    for each in range(number):
        (tmp_path / f"m{each}.py").write_text("import part.net\n" * (each in users) + MAIN + TRAINS)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "net.py").write_text(PLAIN)
    (tmp_path / "part" / "run.yaml").write_text("a: 1\n")
    (tmp_path / "README.md").write_text(named)
    report = analyse([tmp_path], Target())
    chosen = {"part/net.py", "part/run.yaml"} if way == "other" and number > 2 else set()
    assert chosen == report.chosen - {f"m{each}.py" for each in range(number)}
    assert report.program == "m0.py"


LAUNCHES = {"README.md": "python tools/train.py\n", "run.sh": "exec python tools/train.py\n", "go/all.py": "import os\nos.system(f'CUDA_VISIBLE_DEVICES=0 python tools/train.py --rank {n}')\n", "go/some.py": "import subprocess\nsubprocess.run('torchrun tools/train.py', shell=True)\n"}  # fmt: skip


@pytest.mark.parametrize("path", LAUNCHES)
@pytest.mark.parametrize("other", ["", "python tools/show.py\n"])
def test_what_starts_the_program_is_reached(tmp_path: Path, path: str, other: str) -> None:
    files = {"tools/train.py": TRAINS + MAIN, "tools/show.py": MAIN, path: LAUNCHES[path], "x.sh": other}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    report = analyse([tmp_path], Target())
    assert path in report.reached
    assert {"x.sh", "tools/show.py"}.isdisjoint(report.reached)


@pytest.mark.parametrize(("way", "chosen"), [("from lib import fast", False), ("if BACKEND == 'fast':\n    from lib import fast", True), ("try:\n    from lib import fast\nexcept ImportError:\n    fast = None", True)])  # fmt: skip
def test_what_every_import_may_do_without_is_chosen_also_off_the_program(
    tmp_path: Path, way: str, chosen: bool
) -> None:
    files = {"lib/train.py": TRAINS, "lib/__init__.py": "", "lib/fast.py": "import lib.inner\n", "lib/inner.py": PLAIN, "lib/api.py": f"{way}\n"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    report = analyse([tmp_path], Target())
    assert report.chosen == ({"lib/fast.py", "lib/inner.py"} if chosen else set())
