"""Which files of a project need which, by what they import."""

from __future__ import annotations

import pytest

from hpushim.engine.links import Links

#: ``run`` needs ``pkg.a``, which needs ``pkg.b`` and, where it is there, ``pkg.c``; nothing needs ``alone``.
IMPORTS = {
    "run.py": [("pkg.a", "")],
    "alone.py": [],
    "pkg/__init__.py": [],
    "pkg/a.py": [("pkg", "b"), ("pkg.c", ""), ("os", "")],
    "pkg/b.py": [],
    "pkg/c.py": [("pkg.b", "thing")],
}
LINKS = Links(IMPORTS, {"pkg/a.py": [("pkg.c", "")]})
PACKAGE = {"pkg/__init__.py", "pkg/a.py", "pkg/b.py", "pkg/c.py"}


@pytest.mark.parametrize(
    ("starts", "needs", "needing", "certain"),
    [
        (["run.py"], {"run.py"} | PACKAGE, {"run.py"}, {"run.py"} | PACKAGE - {"pkg/c.py"}), (["pkg/b.py"], {"pkg/b.py", "pkg/__init__.py"}, PACKAGE - {"pkg/__init__.py"} | {"run.py"}, {"pkg/b.py", "pkg/__init__.py"}),
        (["alone.py"], {"alone.py"}, {"alone.py"}, {"alone.py"}), ([], set(), set(), set()), (["pkg/c.py"], PACKAGE - {"pkg/a.py"}, {"pkg/c.py", "pkg/a.py", "run.py"}, PACKAGE - {"pkg/a.py"}),
    ],
)  # fmt: skip
def test_what_files_need_and_what_needs_them(starts: list[str], needs: set[str], needing: set[str], certain: set[str]) -> None:  # fmt: skip
    found = [set(one) - ({"pkg/__init__.py"} - needs) for one in (LINKS.needs(starts), LINKS.needing(starts), LINKS.certain(starts))]  # fmt: skip
    assert (found[0] | {"pkg/__init__.py"}, found[1], found[2] | {"pkg/__init__.py"}) == (needs | {"pkg/__init__.py"}, needing, certain | {"pkg/__init__.py"})  # fmt: skip
    assert LINKS.around(starts) == (LINKS.needs(starts) | LINKS.needing(starts) if starts else set())  # fmt: skip


def test_what_can_be_done_without() -> None:
    assert LINKS.avoidable([]) == {"pkg/c.py"}
    assert LINKS.avoidable(["run.py"]) >= {"pkg/c.py"}
    assert Links(IMPORTS).avoidable([]) == Links(IMPORTS, {"pkg/a.py": []}).avoidable([]) == set()
    assert LINKS.needs(["run.py"], ["pkg/a.py"]) == {"run.py", "pkg/a.py", "pkg/__init__.py"}
    assert LINKS.only_through(["pkg/a.py"], ()) == {"pkg/b.py", "pkg/c.py"}
    assert LINKS.only_through(["pkg/c.py"], ()) == set()
    assert LINKS.only_through(["pkg/a.py"], ["alone.py", "run.py"]) >= {"pkg/a.py", "pkg/b.py", "pkg/c.py"}  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
def test_a_package_comes_before_a_module_of_its_name(order: int) -> None:
    paths = ["lib.py", "lib/__init__.py", "use.py"][::order]
    links = Links({path: [] for path in paths})
    assert links.found("use.py", "lib") == {"lib/__init__.py"}
    assert links.is_package(("lib",)) and not links.is_package(("use",))


def test_a_name_is_followed_to_where_a_package_takes_it_from() -> None:
    asked = {
        "a.py": [("lib", "Model")],
        "b.py": [("lib", "other")],
        "c.py": [("plain", "Model")],
        "lib/__init__.py": [("lib.models", "Model"), ("lib.loop", "x")],
        "lib/models.py": [],
        "lib/loop.py": [("lib", "x")],
        "other.py": [],
        "plain.py": [("other", "Model")],
    }
    links = Links(asked)
    assert links.taking(["lib/models.py"]) == {"lib/models.py", "lib/__init__.py", "a.py", "b.py"}
    assert links.taking(["lib/__init__.py"]) == {"lib/__init__.py", "b.py"}
    assert links.taking(["other.py"]) == {"other.py", "plain.py", "c.py"}
    assert links.taking(["plain.py"]) == {"plain.py", "c.py"}
