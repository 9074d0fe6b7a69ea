"""Each way to read and to write, over each kind of thing that may lie in a file's place, and each fault in the middle."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpushim import safe_files
from hpushim.safe_files import Folder, Refused, Torn, descriptors
from hpushim.safe_files import folder as of_folder


def _lay(place: Path, kind: str) -> Path:
    if kind == "file":
        place.write_bytes(b"12345")
    elif kind == "empty":
        place.write_bytes(b"")
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    elif kind == "link":
        (place.parent / "target").write_bytes(b"12345")
        place.symlink_to("target")
    elif kind == "device":
        return Path("/dev/null")
    return place


WORDS = {"folder": "a folder", "pipe": "a pipe", "socket": "a socket", "link": "a symbolic link", "device": "a device"}  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "empty", "folder", "pipe", "socket", "link", "device", "nothing"])  # fmt: skip
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    place = _lay(Path("x"), kind)
    asked: list[Callable[[], Any]] = [lambda: safe_files.read(place), lambda: safe_files.head(place, 3), lambda: safe_files.read(place, follow=False)]  # fmt: skip
    with Folder.at(place.parent) as folder:
        asked += [lambda: folder.read(place.name), lambda: folder.look(place.name)]
        for number, ask in enumerate(asked):
            follows = number < 2
            if kind in ("file", "empty") or (kind == "link" and follows):
                data = b"" if kind == "empty" else b"12345"[: 3 if number == 1 else 5]
                found = ask()
                assert found == data if number < 4 else found.st_size == len(data)
            elif kind == "nothing":
                if number == 4:
                    assert ask() is None
                    continue
                with pytest.raises(FileNotFoundError):
                    ask()
            else:
                with pytest.raises(Refused) as error:
                    ask()
                assert (error.value.strerror, error.value.errno) == (f"{WORDS[kind]}, not a regular file", errno.EINVAL)  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "link", "device", "link to a pipe"])
@pytest.mark.parametrize("way", ["read", "read without following", "head", "read in a folder", "open in a folder"])  # fmt: skip
def test_what_takes_a_file_s_place_after_the_look_is_not_read(tmp_path: Path, kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The look says that it is a regular file; what is then opened is looked at again."""
    place = _lay(tmp_path / "x", "file")
    really, descriptor = os.open, -1

    def swapped(name: Any, *args: Any, **kwargs: Any) -> int:
        nonlocal descriptor
        place.unlink()
        if kind == "device":
            place.symlink_to("/dev/null")
        elif kind == "link to a pipe":
            os.mkfifo(tmp_path / "pipe")
            place.symlink_to("pipe")
        else:
            _lay(place, kind)
        descriptor = really(name, *args, **kwargs)
        return descriptor

    with Folder.at(tmp_path) as folder:
        ways: dict[str, Callable[[], Any]] = {
            "read": lambda: safe_files.read(place),
            "read without following": lambda: safe_files.read(place, follow=False),
            "head": lambda: safe_files.head(place, 3),
            "read in a folder": lambda: folder.read("x"),
            "open in a folder": lambda: folder.open("x", os.O_RDONLY),
        }
        monkeypatch.setattr(os, "open", swapped)
        if kind == "link" and way in ("read", "head"):
            assert ways[way]() == b"12345"[: 3 if way == "head" else 5]
        else:
            with pytest.raises(OSError, match=r".") as error:
                ways[way]()
            assert error.value.errno in (errno.EINVAL, errno.ELOOP, errno.ENXIO)
    if descriptor >= 0:
        with pytest.raises(OSError, match=r"."):
            os.fstat(descriptor)


@pytest.mark.parametrize("kind", ["file", "pipe", "link"])
def test_what_takes_a_folder_s_place_after_the_look_is_not_entered(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (tmp_path / "x").mkdir()
    really = os.open

    def swapped(name: Any, *args: Any, **kwargs: Any) -> int:
        (tmp_path / "x").rmdir()
        if kind == "link":
            (tmp_path / "y").mkdir()
            (tmp_path / "x").symlink_to("y")
        else:
            _lay(tmp_path / "x", kind)
        return really(name, *args, **kwargs)

    with Folder.at(tmp_path) as folder:
        monkeypatch.setattr(os, "open", swapped)
        with pytest.raises(OSError, match=r".") as error:
            folder.inner("x")
        assert error.value.errno in (errno.ENOTDIR, errno.ELOOP)


@pytest.mark.parametrize("size", [0, 1, 4, 5, 6, 4096])
@pytest.mark.parametrize("limit", [0, 1, 5, 4096])
def test_never_more_than_the_limit(tmp_path: Path, size: int, limit: int) -> None:
    (file := tmp_path / "x").write_bytes(data := os.urandom(size))
    for ask in (lambda: safe_files.read(file, limit), lambda: Folder.at(tmp_path).read("x", limit)):
        if size <= limit:
            assert ask() == data
        else:
            with pytest.raises(Refused) as error:
                ask()
            assert (error.value.strerror, error.value.errno) == (f"larger than {limit} bytes", errno.EFBIG)  # fmt: skip


def test_what_grows_or_says_that_it_is_empty_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    assert safe_files.read("/proc/self/status").startswith(b"Name:")
    assert safe_files.head("/proc/self/status", 4) == b""
    parts = [b"a" * 4, b"b" * 4, b"c" * 4, b""]
    asked: list[int] = []

    def read(descriptor: int, length: int) -> bytes:
        asked.append(length)
        return parts[len(asked) - 1]

    monkeypatch.setattr(os, "read", read)
    monkeypatch.setattr(os, "fstat", lambda descriptor: os.stat_result((0,) * 6 + (4, 0, 0, 0)))
    assert descriptors.whole(0, 100) == b"".join(parts)
    assert asked == [5, 97, 93, 89]
    asked.clear()
    with pytest.raises(Refused, match="larger than 11 bytes"):
        descriptors.whole(0, 11)
    asked.clear()
    assert descriptors.whole(0, 12) == b"".join(parts)


@pytest.mark.parametrize(("size", "words"), [(0, "0 bytes"), ((1 << 20) - 1, "1048575 bytes"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB")])  # fmt: skip
def test_amounts_in_words(size: int, words: str) -> None:
    assert descriptors._amount(size) == words


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0"])
def test_names_are_single_names(tmp_path: Path, name: str) -> None:
    with Folder.at(tmp_path) as folder:
        for ask in (folder.look, folder.read, folder.remove, folder.remove_folder, lambda n: folder.rename(n, "b"), lambda n: folder.rename("b", n), folder.inner):  # fmt: skip
            with pytest.raises(Refused) as error:
                ask(name)
            assert (error.value.strerror, error.value.errno) == (f"{name!r} is not the name of a file", errno.EINVAL)  # fmt: skip
    for last in ("", ".", ".."):
        with pytest.raises(Refused) as error:
            safe_files.write(f"{tmp_path}/{last}", b"")
        assert (error.value.strerror, error.value.errno) == ("a folder, not a file", errno.EISDIR)


def test_folders_further_in(tmp_path: Path) -> None:
    with Folder.at(tmp_path) as top:
        with pytest.raises(FileNotFoundError):
            top.inner("a", "b")
        old = os.umask(0)
        try:
            made = top.inner("a", "b", make=True)
        finally:
            os.umask(old)
        assert made.path == str(tmp_path / "a" / "b")
        assert stat.S_IMODE(made.info().st_mode) == 0o775
        made.new("f", b"1")
        assert (made.names(), top.names()) == (["f"], ["a"])
        (tmp_path / "link").symlink_to("a")
        for name, words in (("link", "a symbolic link"), ("file", "a file")):
            (tmp_path / "file").write_text("")
            with pytest.raises(Refused, match=rf"{name} is {words}, not a folder") as error:
                top.inner(name, make=True)
            assert error.value.errno == errno.ENOTDIR
        made.close()
        made.close()
        with pytest.raises(OSError):
            os.fstat(made._descriptor)
        with pytest.raises(OSError):
            top.remove_folder("a")
        (tmp_path / "a" / "b" / "f").unlink()
        with top.inner("a") as a:
            a.remove_folder("b")
            a.sync()
        assert list((tmp_path / "a").iterdir()) == []
        assert top.inner().path == str(tmp_path)
    with pytest.raises(NotADirectoryError):
        Folder.at(tmp_path / "file")


@pytest.mark.parametrize("before", ["nothing", "file"])
@pytest.mark.parametrize("mode", [None, 0o600, 0o755, 0o4711])
@pytest.mark.parametrize("time_ns", [None, 10**18])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("names_stay", [False, True])
def test_what_a_file_keeps_when_it_is_written(tmp_path: Path, before: str, mode: int | None, time_ns: int | None, linked: bool, names_stay: bool) -> None:  # fmt: skip
    place = tmp_path / "x"
    old = os.umask(0o22)
    try:
        if before == "file":
            place.write_bytes(b"old bytes")
            place.chmod(0o4640)
            if linked:
                os.link(place, tmp_path / "other")
        number = place.stat().st_ino if before == "file" else 0
        with Folder.at(tmp_path) as folder:
            folder.write("x", b"new", temporary="t", names_stay=names_stay, mode=mode, time_ns=time_ns)  # fmt: skip
            assert sorted(folder.names()) == ["other", "x"] if before == "file" and linked else ["x"]  # fmt: skip
    finally:
        os.umask(old)
    assert place.read_bytes() == b"new"
    is_linked = before == "file" and linked
    if is_linked:
        assert (tmp_path / "other").read_bytes() == (b"new" if names_stay else b"old bytes")
    if before == "file":
        assert (place.stat().st_ino == number) == (is_linked and names_stay)
    permissions = (0o640 if before == "file" else 0o644) if mode is None else mode & 0o777
    # The kernel takes the set-id bits from a file that is written in place, unless its writer is root.
    keeps = before == "file" and (not (is_linked and names_stay) or os.getuid() == 0)
    assert stat.S_IMODE(place.stat().st_mode) & ~0o4000 == permissions
    assert bool(place.stat().st_mode & 0o4000) == keeps
    if time_ns is not None:
        assert place.stat().st_mtime_ns == time_ns


@pytest.mark.parametrize("still", [b"old", b"ol", b"older", b"", None])
@pytest.mark.parametrize("linked", [False, True])
def test_what_has_changed_meanwhile_is_not_written(tmp_path: Path, still: bytes | None, linked: bool) -> None:  # fmt: skip
    (place := tmp_path / "x").write_bytes(b"old")
    if linked:
        os.link(place, tmp_path / "y")
    with Folder.at(tmp_path) as folder:
        if still in (b"old", None):
            folder.write("x", b"new", temporary="t", still=still)
            assert place.read_bytes() == b"new"
            if linked:  # the other name has brought them already
                folder.write("y", b"new", temporary="t", still=b"old")
        else:
            with pytest.raises(Refused, match="changed on disk during the check; run hpushim again"):  # fmt: skip
                folder.write("x", b"new", temporary="t", still=still)
            assert place.read_bytes() == b"old"
        assert "t" not in folder.names()
        if not linked:
            with pytest.raises(Refused, match="changed on disk"):
                folder.write("gone", b"new", temporary="t", still=b"old")
            assert "gone" not in folder.names()


def _broken(monkeypatch: pytest.MonkeyPatch, name: str, times: int, error: BaseException) -> None:
    real, left = getattr(descriptors.os, name), [times]

    def fails(*args: Any, **kwargs: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, fails)


@pytest.mark.parametrize("where", ["fsync", "write"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("times", [1, 9])
def test_a_fault_leaves_the_old_bytes_or_says_that_it_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException, times: int) -> None:  # fmt: skip
    for name in ("x", "linked"):
        (tmp_path / name).write_bytes(b"old bytes")
    os.link(tmp_path / "linked", tmp_path / "again")
    with Folder.at(tmp_path) as folder:
        before = len([*Path("/proc/self/fd").iterdir()])
        for act in (lambda: folder.write("x", b"new", temporary="t"), lambda: folder.new("made", b"new")):  # fmt: skip
            with monkeypatch.context() as faults:
                _broken(faults, where, times, error)
                with pytest.raises(type(error)):
                    act()
        with monkeypatch.context() as faults:
            _broken(faults, where, times, error)
            in_vain = times > 1 and isinstance(error, OSError)
            with pytest.raises(Torn if in_vain else type(error)) as told:
                folder.overwrite("linked", b"new")
        if in_vain:
            assert told.value.strerror == "disk full, and it could not be undone; the next run undoes it"  # fmt: skip
        assert sorted(folder.names()) == ["again", "linked", "x"]
        assert (tmp_path / "x").read_bytes() == b"old bytes"
        if times == 1:
            assert (tmp_path / "again").read_bytes() == b"old bytes"
        assert len([*Path("/proc/self/fd").iterdir()]) == before
        folder.new("made", b"data", 0o4640, sync=False)
        assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o640
        with pytest.raises(FileExistsError):
            folder.new("made", b"other")
        assert (tmp_path / "made").read_bytes() == b"data"


HOLDS = "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"


def test_a_draft_of_a_writer_that_lives_and_of_one_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"half")
    with Folder.at(tmp_path) as folder:
        with subprocess.Popen([sys.executable, "-IS", "-c", HOLDS, tmp_path / "t"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # fmt: skip
            assert other.stdout
            other.stdout.readline()
            with pytest.raises(Refused, match="another run is writing it; try again later") as error:  # fmt: skip
                folder.write("x", b"new", temporary="t")
            assert error.value.errno == errno.EAGAIN
            begun = of_folder.time.monotonic()
            with pytest.raises(TimeoutError, match="another run is writing here"), folder.lock("t", 0.1):  # fmt: skip
                pass
            assert of_folder.time.monotonic() - begun >= 0.1
            other.communicate()
        assert (tmp_path / "t").read_bytes() == b"half"
        folder.write("x", b"new", temporary="t")
        assert ((tmp_path / "x").read_bytes(), folder.names()) == (b"new", ["x"])
        (tmp_path / "t").symlink_to("x")
        folder.write("y", b"second", temporary="t")
        assert sorted(folder.names()) == ["x", "y"] and (tmp_path / "x").read_bytes() == b"new"
        with folder.lock("l", 5):
            assert not _free(tmp_path / "l")
            (tmp_path / "l").unlink()
            (tmp_path / "l").write_text("")
        assert _free(tmp_path / "l")


def _free(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR)
    try:
        return descriptors.locked(descriptor)
    finally:
        os.close(descriptor)


def test_a_lock_that_was_taken_away_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    real, asked = descriptors.locked, []

    def locked(descriptor: int) -> bool:
        asked.append(descriptor)
        if len(asked) == 2:
            (tmp_path / "l").unlink()
        return len(asked) > 1 and real(descriptor)

    waited: list[float] = []
    monkeypatch.setattr(of_folder.time, "sleep", waited.append)
    monkeypatch.setattr(descriptors, "locked", locked)
    with Folder.at(tmp_path) as folder, folder.lock("l", 5):
        assert (len(asked), len(waited), waited[0] > 0) == (3, 1, True)
        assert (tmp_path / "l").exists()


@pytest.mark.parametrize(("error", "free"), [(BlockingIOError(), False), (OSError(errno.ENOLCK, "no locks"), True), (None, True)])  # fmt: skip
def test_where_there_are_no_locks_nobody_waits(monkeypatch: pytest.MonkeyPatch, error: OSError | None, free: bool) -> None:  # fmt: skip
    import fcntl

    def flock(descriptor: int, how: int) -> None:
        assert how == fcntl.LOCK_EX | fcntl.LOCK_NB
        if error:
            raise error

    monkeypatch.setattr(fcntl, "flock", flock)
    assert descriptors.locked(0) is free
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert descriptors.locked(0) is True


@pytest.mark.parametrize("can", [True, False])
@pytest.mark.parametrize("theirs", [True, False])
@pytest.mark.parametrize("permissions", [None, 0o600])
def test_owner_and_attributes_stay_and_set_id_bits_with_them_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can: bool, theirs: bool, permissions: int | None) -> None:  # fmt: skip
    for name in ("new", "old"):
        (tmp_path / name).write_text("")
    (tmp_path / "old").chmod(0o6755)
    old = list((tmp_path / "old").stat())
    if theirs:
        old[stat.ST_UID] += 7
    owners: list[tuple[int, int]] = []

    def fchown(descriptor: int, user: int, group: int) -> None:
        owners.append((user, group))
        if not can:
            raise PermissionError

    given: dict[str, bytes] = {}

    def setxattr(descriptor: int, key: str, value: bytes) -> None:
        given[key] = value
        if not can:
            raise PermissionError

    monkeypatch.setattr(os, "fchown", fchown)
    monkeypatch.setattr(os, "listxattr", lambda source: ["user.a", "security.capability", "user.b"])
    monkeypatch.setattr(os, "getxattr", lambda source, key: key.encode())
    monkeypatch.setattr(os, "setxattr", setxattr)
    descriptor = os.open(tmp_path / "new", os.O_RDWR)
    descriptors.dress(descriptor, descriptor, os.stat_result(old), permissions)
    bits = 0o755 if permissions is None else permissions
    kept = 0 if theirs and not can else 0o6000
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == bits | kept
    assert owners == ([(old[stat.ST_UID], old[stat.ST_GID])] if theirs else [])
    assert given == {"user.a": b"user.a", "user.b": b"user.b"}
    given.clear()
    descriptors.dress(descriptor, None, os.stat_result(old), permissions)
    monkeypatch.setattr(os, "listxattr", lambda source: open("/nowhere/at/all"))  # noqa: SIM115, PTH123
    descriptors.dress(descriptor, descriptor, os.stat_result(old), permissions)
    assert given == {}
    os.close(descriptor)


# What is written by a path.


def test_links_inside_a_project_are_not_followed_and_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    (project := tmp_path / "project").mkdir()
    (tmp_path / "real").mkdir()
    (project / "sub").mkdir()
    (project / "link").symlink_to(tmp_path / "real")
    (project / "near").symlink_to("sub")
    (tmp_path / "outer").symlink_to("project/sub")
    (tmp_path / "beside").symlink_to(tmp_path / "real")
    monkeypatch.chdir(project)
    for name, target in (("link", tmp_path / "real"), ("near", "sub")):
        for how in ({}, {"project": project}):
            with pytest.raises(Refused) as error:
                safe_files.write(f"{name}/x", b"1", **how)  # type: ignore[arg-type]
            assert error.value.errno == errno.ELOOP
            assert error.value.strerror == f"{name} is a symbolic link in the project, to {target}; name the folder itself"  # fmt: skip
        safe_files.write(f"{name}/x", b"1", project="/")
        safe_files.write(f"{name}/x", b"2", project=tmp_path / "real")
    safe_files.write(tmp_path / "outer" / "y", b"3")
    safe_files.write("../beside/z", b"4")
    safe_files.write("sub/../sub/./w", b"5")
    found = {path.name: path.read_bytes() for path in (project / "sub").iterdir()}
    assert found == {"x": b"2", "y": b"3", "w": b"5"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "real").iterdir()} == {"x": b"2", "z": b"4"}  # fmt: skip


@pytest.mark.parametrize("links", [39, 40, 41])
def test_as_many_links_as_the_kernel_follows(tmp_path: Path, links: int) -> None:
    (tmp_path / "l0").mkdir()
    for number in range(1, links + 1):
        (tmp_path / f"l{number}").symlink_to(f"l{number - 1}")
    last = tmp_path / f"l{links}" / "x"
    if links <= 40:
        safe_files.write(last, b"1", project=tmp_path / "elsewhere")
        assert (tmp_path / "l0" / "x").read_bytes() == b"1"
    else:
        with pytest.raises(OSError) as error:
            safe_files.write(last, b"1", project=tmp_path / "elsewhere")
        assert error.value.errno == errno.ELOOP


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOSPC])  # fmt: skip
@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_cannot_be_replaced_is_written_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, there: bool) -> None:  # fmt: skip
    if there:
        (tmp_path / "x").write_bytes(b"old")
    os.link(tmp_path / "x", tmp_path / "y") if there else None

    def replace(*_: Any, **__: Any) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(os, "replace", replace)
    if there and code != errno.ENOSPC:
        safe_files.write(tmp_path / "x", b"new")
        assert (tmp_path / "y").read_bytes() == b"new"
    else:
        with pytest.raises(OSError, match="no") as error:
            safe_files.write(tmp_path / "x", b"new")
        assert error.value.errno == code
        assert (tmp_path / "x").exists() == there
    assert not [path for path in tmp_path.iterdir() if safe_files.is_temporary(path.name)]


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "link", "nothing"])
@pytest.mark.parametrize("writable", [True, False])
def test_what_would_be_refused_is_known_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, writable: bool) -> None:  # fmt: skip
    _lay(tmp_path / "x", kind)
    asked: list[tuple[Any, ...]] = []
    real = os.open

    def access(path: Any, how: int, **where: Any) -> bool:
        asked.append((path, how))
        return writable

    def opened(path: Any, flags: int, *rest: Any, **where: Any) -> int:
        if path == "x" and flags & os.O_WRONLY:
            asked.append(("opened",))
        return real(path, flags, *rest, **where)

    monkeypatch.setattr(os, "access", access)
    monkeypatch.setattr(os, "open", opened)
    if kind in WORDS:
        with pytest.raises(Refused, match=f"{WORDS[kind]}, not a regular file"):
            safe_files.check(tmp_path / "x")
        assert asked == []
        return
    if kind == "nothing" and not writable:
        with pytest.raises(Refused, match="its folder cannot be written to") as error:
            safe_files.check(tmp_path / "x")
        assert error.value.errno == errno.EACCES
    else:
        safe_files.check(tmp_path / "x")
    opens = [("opened",)] if kind == "file" and not writable else []
    assert asked == [(".", os.W_OK | os.X_OK), *opens]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [(".hpushim-0123456789abcdef.tmp", True), (".hpushim-0123456789abcde.tmp", False), (".hpushim-0123456789abcdeg.tmp", False), (".hpushim-0123456789ABCDEF.tmp", False),
     ("hpushim--0123456789abcdef.tmp", False), (".hpushim-0123456789abcdef.tmq", False), (".hpushim-0123456789abcdef0.tmp", False)],
)  # fmt: skip
def test_the_names_of_temporary_files(name: str, is_one: bool) -> None:
    assert safe_files.is_temporary(name) is is_one
    made = [safe_files.temporary() for _ in range(2)]
    assert made[0] != made[1] and all(map(safe_files.is_temporary, made))
    assert safe_files.temporary(b"\x01\x02") == ".hpushim-0102.tmp"
    assert safe_files.is_temporary(safe_files._draft("x")) and safe_files._draft("x") != safe_files._draft("y")  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "chosen", "base", "folder", "said"),
    [("linux", "~/c", "", "/h/c", "HPUSHIM_CACHE_DIR is '~/c'"), ("linux", "", "/x", "/x/hpushim", "HOME is '/h'"), ("linux", "", "rel", "/h/.cache/hpushim", "HOME is '/h'"),
     ("linux", "", None, "/h/.cache/hpushim", "HOME is '/h'"), ("darwin", "", "/x", "/h/Library/Caches/hpushim", "HOME is '/h'"), ("darwin", "c", "", "c", "HPUSHIM_CACHE_DIR is 'c'")],
)  # fmt: skip
def test_where_what_can_be_made_again_is_kept(monkeypatch: pytest.MonkeyPatch, platform: str, chosen: str, base: str | None, folder: str, said: str) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("HOME", "/h")
    monkeypatch.setenv("HPUSHIM_CACHE_DIR", chosen)
    if base is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert safe_files.cache_folder() == (folder, said)


def test_a_folder_is_let_go_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    monkeypatch.setattr(of_folder.os, "close", closed.append)
    for descriptor in (-1, 0, 1):
        with Folder("x", descriptor) as folder:
            pass
        folder.close()
    monkeypatch.undo()
    assert closed == [0, 1]


def test_where_names_are_not_taken_relative_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Windows, as far as it can be had here."""
    for module in (of_folder, safe_files):
        monkeypatch.setattr(module, "AT", False)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        Folder.at(tmp_path / "file")
    with Folder.at(tmp_path) as folder, folder.inner("a", "b", make=True) as inner:
        assert (inner.path, inner.writable()) == (str(tmp_path / "a" / "b"), True)
        inner.new("x", b"1")
        inner.write("x", b"2", temporary="t")
        inner.rename("x", "y")
        assert (inner.read("y"), inner.names(), inner.look("x")) == (b"2", ["y"], None)
        inner.sync()
        inner.remove("y")
        assert os.path.samestat(inner.info(), (tmp_path / "a" / "b").stat())
    safe_files.write(tmp_path / "a" / "z", b"3")
    assert (tmp_path / "a" / "z").read_bytes() == b"3"
