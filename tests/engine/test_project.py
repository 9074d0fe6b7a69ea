"""The whole way: a project analysed, migrated, taken back, with every kind of odd file in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpushim.engine.files import pool
from hpushim.engine.project import analyse, migrate, undo
from hpushim.engine.run import Run
from hpushim.errors import HpushimError
from hpushim.model import FileResult, Report, Target

pytestmark = pytest.mark.usefixtures("rules")

TORTURE = {
    "plain.py": b"x = old_name\n",
    "bom.py": b"\xef\xbb\xbfx = old_name  # \xc3\xa9\n",
    "crlf.py": b"x = old_name\r\ny = '''a\r\nb'''\r\nold_name\r\n",
    "cr.py": b"x = old_name\ry = old_name\r",
    "mixed.py": b"x = old_name\r\ny = old_name\nz = 1\r",
    "latin.py": b"# -*- coding: latin-1 -*-\nx = '\xe9\xff' + old_name  # \xe8\n",
    "tabs.py": b"if x:\n\tif y:\n\t\told_name\n\telse:\n        \told_name\n",
    "form_feed.py": b"a = 1\n\x0c\nb = old_name\n\x0cc = old_name\n",
    "no_end.py": b"old_name",
    "comment_end.py": b"old_name  # no newline",
    "wide.py": "é, 日本 = '𝒳', old_name; f'𝒳{old_name}é'\n".encode(),
    "continued.py": b"x = 1 + \\\n  old_name \\\n  + 2; y = old_name\n",
    "format.py": b"x = f'{old_name!r:>{old_name}}' f'{{old_name}}' '{old_name}'\n",
    "strings.py": b'"""old_name"""\nx = "old_name"  # old_name\n',
    "brackets.py": b"x = ((old_name)\n  .a  # old_name\n  .b)(\n old_name\n)\n",
    "space.py": b"  \n\t\n\nold_name\n\n\n",
}


def lay(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, ns=(1_500_000_000_000_000_001, 1_500_000_000_000_000_001))


def results(report: Report) -> dict[str, FileResult]:
    return {item.path: item for item in report.files}


def run(root: Path, **options: object) -> dict[str, FileResult]:
    return results(migrate([root], Target(), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TORTURE)
def test_odd_files_change_only_where_they_should(name: str, tmp_path: Path) -> None:
    lay(tmp_path, {name: TORTURE[name]})
    path = tmp_path / name
    result = run(tmp_path)[name]
    changed = name != "strings.py"
    expected = {
        "strings.py": TORTURE[name],
        "format.py": b"x = f'{new_name!r:>{new_name}}' f'{{old_name}}' '{old_name}'\n",
        "brackets.py": b"x = ((new_name)\n  .a  # old_name\n  .b)(\n new_name\n)\n",
    }.get(name, TORTURE[name].replace(b"old_name", b"new_name"))
    assert path.read_bytes() == expected, result.reason
    assert result.status == ("changed" if changed else "unchanged")
    if changed:
        assert (result.before, result.after) == (TORTURE[name], expected)
        undo(tmp_path)
    assert path.read_bytes() == TORTURE[name]
    assert path.stat().st_mtime_ns == 1_500_000_000_000_000_001


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"print 'old_name'\n", "HPU001"),
        (b"{% if x %}\nold_name\n{% endif %}\n", "HPU001"),
        (b"x = old_name\n\0", "HPU002"),
        (b"x = '\xe9' + old_name\n", "HPU002"),
        (
            b"# coding: latin-1\nx = '\xe9'\n# coding: what\n".replace(b"latin-1", b"nope")
            + b"old_name",
            "HPU002",
        ),
        ("x = old_name\n".encode("utf-16"), "HPU002"),
        (b"x = " + b"(" * 300 + b"old_name" + b")" * 300, "HPU001"),
    ],
)
def test_what_cannot_be_read_is_failed_and_left(data: bytes, code: str, tmp_path: Path) -> None:
    # UTF-16 hides the marker, so such a file is not even looked at unless its bytes show one.
    data = data if b"old_name" in data else data + b"#old_name"
    lay(tmp_path, {"a.py": data, "good.py": b"old_name\n"})
    done = run(tmp_path)
    assert done["a.py"].status == "failed" and done["a.py"].reason
    assert [f.code for f in done["a.py"].findings] == [code]
    assert (tmp_path / "a.py").read_bytes() == data
    assert done["good.py"].status == "changed"


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    lay(tmp_path, TORTURE)
    run(tmp_path)
    times = {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.py")}
    assert {item.status for item in run(tmp_path).values()} == {"unchanged"}
    assert times == {p.name: p.stat().st_mtime_ns for p in tmp_path.glob("*.py")}


def test_check_and_diff_write_nothing(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"old_name\n"})
    report = analyse([tmp_path], Target())
    finding = results(report)["a.py"].findings[0]
    assert (finding.line, finding.column, finding.applied) == (1, 1, False)
    assert run(tmp_path, write=False)["a.py"].after == b"new_name\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.py"]
    assert (tmp_path / "a.py").read_bytes() == b"old_name\n"
    assert msgspec.json.encode(report)


def test_unsafe_fixes_need_asking(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"risky\n"})
    assert run(tmp_path)["a.py"].status == "unchanged"
    assert run(tmp_path, unsafe=True)["a.py"].after == b"bold\n"


def test_select_and_ignore(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"old_name, pair_a\n"})
    assert run(tmp_path, write=False, select=["HPU901"])["a.py"].after == b"new_name, pair_a\n"
    assert run(tmp_path, write=False, ignore=["HPU901"])["a.py"].after == b"old_name, both_a\n"
    assert (
        run(tmp_path, write=False, select=["HPU9"], ignore=["HPU90"])["a.py"].status == "unchanged"
    )


def test_a_raising_rule_loses_only_its_own_part(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"old_name\nbreakpoint\n", "b.py": b"old_name\n"})
    done = run(tmp_path)
    assert (tmp_path / "a.py").read_bytes() == b"new_name\nbreakpoint\n"
    assert [(f.code, f.line) for f in done["a.py"].findings] == [("HPU004", 2), ("HPU901", 1)]
    assert "KeyError" in done["a.py"].findings[0].message
    assert done["b.py"].status == "changed"


def test_a_restless_rule_is_taken_back_and_the_others_stay(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"old_name\nflip\n"})
    done = run(tmp_path)["a.py"]
    assert done.after == b"new_name\nflip\n"
    assert any(f.code == "HPU004" and "HPU904" in f.message for f in done.findings)


@pytest.mark.parametrize("word", [b"broken", b"swallow"])
def test_a_rewrite_that_breaks_the_file_is_not_made(word: bytes, tmp_path: Path) -> None:
    data = b"old_name\n" + word + b"\nx = 1\n# '''\n"
    lay(tmp_path, {"a.py": data})
    done = run(tmp_path)["a.py"]
    assert done.after == data.replace(b"old_name", b"new_name")
    assert [f.code for f in done.findings if not f.applied] == ["HPU004", "HPU905"]


def test_a_suppressed_member_holds_its_group(tmp_path: Path) -> None:
    data = b"pair_a = 1\nprint(pair_a)  # hpushim: ignore[HPU906]\npair_b\n"
    lay(tmp_path, {"a.py": data})
    assert run(tmp_path)["a.py"].after == data.replace(b"pair_b", b"both_b")


def test_an_import_is_made_once(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"needs_import\r\nneeds_import\r\n"})
    assert run(tmp_path)["a.py"].after == b"import lib\r\nlib.made\r\nlib.made\r\n"


def test_text_files_in_any_encoding(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "a.yaml": b"a: old # \xe9\n",
            "b.sh": "x=old é\n".encode(),
            "c.json": b'\xef\xbb\xbf{"old": 1}',
        },
    )
    done = run(tmp_path)
    assert done["a.yaml"].after == b"a: new # \xe9\n"
    assert done["b.sh"].after == "x=new é\n".encode()
    assert done["c.json"].after == b'\xef\xbb\xbf{"new": 1}'


def test_uncommitted_changes_are_refused(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    lay(
        tmp_path,
        {
            "a.py": b"old_name\n",
            "b.py": b"1\n",
            "sub/é x.py": b"old_name\n",
            ".gitignore": b"c.py\n",
        },
    )
    git("add", ".")
    git("commit", "-qm", "x")
    (tmp_path / "b.py").write_bytes(b"2\n")  # dirty, but not to be rewritten
    assert run(tmp_path)["a.py"].status == "changed"
    git("commit", "-qam", "y")
    (tmp_path / "sub" / "é x.py").write_bytes(b"old_name  # mine\n")
    with pytest.raises(HpushimError, match=r"uncommitted changes: sub/é x\.py; commit"):
        run(tmp_path)
    assert (tmp_path / "sub" / "é x.py").read_bytes() == b"old_name  # mine\n"
    assert run(tmp_path, allow_dirty=True)["sub/é x.py"].status == "changed"
    lay(tmp_path, {"new.py": b"old_name\n"})
    with pytest.raises(HpushimError, match=r"new\.py"):
        run(tmp_path)


def test_a_repository_that_git_cannot_read_is_said(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    lay(tmp_path, {"a.py": b"old_name\n"})
    with pytest.raises(HpushimError, match="--allow-dirty"):
        run(tmp_path)
    assert (tmp_path / "a.py").read_bytes() == b"old_name\n"


def test_processes_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {f"{n}.py": b"old_name\n" * (n + 1) for n in range(30)})
    alone = migrate([tmp_path], Target(), write=False, jobs=1)
    monkeypatch.setattr(pool, "_WORTH", 1)
    seen: list[int] = []
    many = migrate(
        [tmp_path], Target(), write=False, jobs=2, progress=lambda n, total, path: seen.append(n)
    )
    assert many == alone
    assert seen == list(range(1, 31))


def test_facts_about_the_project(tmp_path: Path) -> None:
    lay(
        tmp_path,
        {
            "train.py": b"def top(): pass\n",
            "pkg/__init__.py": b"class A:\n    async def to(self): pass\n",
            "pkg/inner.py": b"class B:\n\tdef cuda(self,\n\t  x): pass\n",
            "scripts/tool.py": b"",
        },
    )
    facts = Run([tmp_path], Target(), None, (), (), (), unsafe=False).context.project
    assert facts.methods == {"to", "cuda"}
    assert facts.modules == {"train", "pkg", "scripts", "tool"}


def test_a_clean_project_loads_neither_libcst_nor_torch(tmp_path: Path) -> None:
    lay(tmp_path, {"a.py": b"x = 1\n", "b.yaml": b"a: 1\n"})
    code = (
        "import sys; from pathlib import Path; from hpushim.engine.project import analyse;"
        "from hpushim.model import Target; analyse([Path(sys.argv[1])], Target());"
        "print([m for m in ('torch', 'libcst', 'tree_sitter', 'yaml', 'pathspec') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


PIECES = st.sampled_from(
    [
        b"old_name",
        b"flip",
        b"pair_x",
        b"\n",
        b"\r\n",
        b"\r",
        b"'",
        b'"""',
        b"\xe9",
        b"\xc3\xa9",
        b"#",
        b"(",
        b")",
        b" ",
        b"\t",
        b"\\",
        b"f'{old_name}'",
        b"\x00",
        b"\xef\xbb\xbf",
        b"# coding: latin-1\n",
        b"if x:\n  ",
        b"\x0c",
        b";",
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(PIECES, st.binary(max_size=3)), max_size=12).map(b"".join))
def test_any_bytes_are_left_or_rewritten_validly(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    root = tmp_path_factory.mktemp("any")
    path = root / "a.py"
    path.write_bytes(data)
    result = run(root)["a.py"]
    now = path.read_bytes()
    if result.status != "changed":
        assert now == data
        return
    compile(now, "a.py", "exec", dont_inherit=True)
    assert now == result.after != data
    assert run(root)["a.py"].status == "unchanged"
    undo(root)
    assert path.read_bytes() == data


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(set(TORTURE) - {"latin.py", "bom.py", "cr.py"})),
    st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "cp1252", "koi8-r"]),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_every_file_in_every_encoding_and_newline(
    tmp_path_factory: pytest.TempPathFactory, name: str, encoding: str, newline: bytes
) -> None:
    text = TORTURE[name].decode().replace("\r\n", "\n").replace("\r", "\n")
    if not encoding.startswith("utf-8"):
        text = f"# coding: {encoding}\n" + "".join(c for c in text if c.isascii())
    if name == "wide.py":
        text = text.replace(", ", "a, ", 1) if text[0] == "#" else text
    data = text.encode(encoding).replace(b"\n", newline)
    root = tmp_path_factory.mktemp("enc")
    lay(root, {name: data})
    result = run(root)[name]
    assert result.status != "failed", result.reason
    normal = run_normal(tmp_path_factory, name, text)
    assert (root / name).read_bytes() == normal.encode(encoding).replace(b"\n", newline)


def run_normal(factory: pytest.TempPathFactory, name: str, text: str) -> str:
    """The same text in UTF-8 with plain newlines, migrated."""
    root = factory.mktemp("normal")
    lay(root, {name: text.encode()})
    run(root)
    return (root / name).read_text(encoding="utf-8")


def test_toys_are_the_only_rules() -> None:
    assert {rule.code for rule in toys.EVERY} == {f"HPU9{n:02}" for n in range(1, 11)}
