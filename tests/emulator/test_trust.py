"""From where the compiled device is loaded: folders that are the user's own and nobody else's to write, all the way up."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from hpushim.emulator.trust import require_own
from hpushim.errors import EmulatorError

STRANGER = 54321
LOAD = "from hpushim.emulator import device; device.load(); print('loaded')"


@pytest.fixture(scope="module")
def library() -> Path:
    """The real device, built."""
    from hpushim.emulator import build

    return build.build()


@pytest.fixture
def cache(tmp_path, library):
    """A cache that has the device."""
    shutil.copytree(library.parent, tmp_path / "home" / "cache" / "device" / library.parent.name)
    for folder in (
        tmp_path / "home",
        tmp_path / "home" / "cache",
        tmp_path / "home" / "cache" / "device",
    ):
        folder.chmod(0o700)
    return tmp_path / "home" / "cache"


def everybody(path: Path) -> None:
    path.chmod(0o777)


def its_group(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another group")
    os.chown(path, -1, STRANGER)
    path.chmod(0o770)


def a_stranger(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path, STRANGER, -1)


@pytest.mark.parametrize("open_to", [everybody, its_group, a_stranger], ids=lambda f: f.__name__)
@pytest.mark.parametrize("where", [".", "device", "device/*", "device/*/*.so", ".."])
def test_a_place_that_others_can_write_is_refused(run, cache, where, open_to):
    place = next(iter(cache.glob(where))) if "*" in where else (cache / where).resolve()
    open_to(place)
    done = run(LOAD, check=False, HPUSHIM_CACHE_DIR=str(cache), CXX="no-such-compiler")
    assert done.returncode != 0 and "loaded" not in done.stdout
    line = done.stderr.strip().splitlines()[-1]
    assert f"is not used: {place} " in line and "HPUSHIM_CACHE_DIR" in line
    assert ("belongs to the user" if open_to is a_stranger else "can be written by") in line


def test_a_cache_of_ones_own_is_used(run, cache):
    done = run(LOAD, HPUSHIM_CACHE_DIR=str(cache), CXX="no-such-compiler")
    assert done.stdout == "loaded\n"


def test_a_sticky_folder_above_is_none_of_others_business(run, cache):
    cache.parent.chmod(0o1777)
    done = run(LOAD, HPUSHIM_CACHE_DIR=str(cache), CXX="no-such-compiler")
    assert done.stdout == "loaded\n"
    (cache / "device").chmod(
        0o1777
    )  # but not the folder that libraries are put into, were it another's
    if os.geteuid() == 0:
        os.chown(cache / "device", STRANGER, -1)
        done = run(LOAD, check=False, HPUSHIM_CACHE_DIR=str(cache))
        assert f"{cache / 'device'} belongs to the user with number {STRANGER}" in done.stderr


@pytest.mark.parametrize("open_one", ["where the link leads", "where the link stands"])
def test_links_are_looked_at_on_both_ends(run, cache, tmp_path, open_one):
    stands = tmp_path / "stands"
    stands.mkdir(mode=0o700)
    (stands / "link").symlink_to(cache)
    place = cache if open_one == "where the link leads" else stands
    place.chmod(0o777)
    done = run(LOAD, check=False, HPUSHIM_CACHE_DIR=str(stands / "link"))
    assert f"is not used: {place} can be written by everybody" in done.stderr


@pytest.mark.parametrize("given", ["cache", "./cache", "../cache", "~nobody-of-that-name/cache"])
def test_a_relative_cache_folder_is_refused(run, tmp_path, given):
    done = run(
        f"import os; os.chdir({str(tmp_path)!r})\n" + LOAD, check=False, HPUSHIM_CACHE_DIR=given
    )
    line = done.stderr.strip().splitlines()[-1]
    assert f"HPUSHIM_CACHE_DIR is {given!r}, a relative path; expected an absolute one" in line
    assert list(tmp_path.iterdir()) == []


def test_a_relative_home_is_refused_and_a_relative_xdg_cache_home_ignored(run, tmp_path):
    code = "from hpushim.emulator.cache import cache_dir; print(cache_dir())"
    done = run(code, check=False, HPUSHIM_CACHE_DIR="", HOME="here", XDG_CACHE_HOME="")
    assert "HOME is 'here', a relative path" in done.stderr
    done = run(code, HPUSHIM_CACHE_DIR="", HOME=str(tmp_path), XDG_CACHE_HOME="here")
    assert done.stdout == f"{tmp_path}/.cache/hpushim\n"


def test_folders_are_made_for_the_user_alone(run, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo built > "$2"; shift; done\n'
    )
    compiler.chmod(0o755)
    code = "import os; os.umask(0)\nfrom hpushim.emulator import build; print(build.build())"
    made = run(code, HPUSHIM_CACHE_DIR=str(tmp_path / "a" / "b"), CXX=str(compiler)).stdout.strip()
    for folder in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "device"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    require_own(Path(made), "the library", "do something")


def test_nothing_is_compiled_into_a_folder_of_others(run, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    log = tmp_path / "calls"
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\necho x >> {log}\n")
    compiler.chmod(0o755)
    code = "from hpushim.emulator import build; build.build()"
    done = run(code, check=False, HPUSHIM_CACHE_DIR=str(cache), CXX=str(compiler))
    assert "is not used" in done.stderr and not log.exists()


def test_what_children_import_is_looked_at_too(run, tmp_path):
    code = "from hpushim import emulator; print(emulator.environment()['PYTHONPATH'])"
    run(code, HPUSHIM_CACHE_DIR=str(tmp_path))
    folder = next((tmp_path / "environment").iterdir())
    folder.chmod(0o777)
    done = run(code, check=False, HPUSHIM_CACHE_DIR=str(tmp_path))
    assert f"{folder} can be written by everybody" in done.stderr


def test_a_prebuilt_device_on_the_path_is_looked_at_too(run, tmp_path, library):
    site = tmp_path / "site"
    place = site / "_hpushim_prebuilt" / library.parent.name
    place.mkdir(parents=True)
    shutil.copy(library, place)
    (site / "_hpushim_prebuilt" / "__init__.py").write_text("")
    env = {"PYTHONPATH": str(site), "HPUSHIM_CACHE_DIR": str(tmp_path / "cache"), "CXX": "none"}
    assert run(LOAD, **env).stdout == "loaded\n"
    site.chmod(0o777)
    done = run(LOAD, check=False, **env)
    assert f"{site} can be written by everybody" in done.stderr


def test_root_owns_what_is_above(tmp_path):
    """/ and /tmp are root's, which a user relies on anyway."""
    require_own(tmp_path, "the folder", "do something")
    with pytest.raises(EmulatorError, match="/tmp can be written by everybody"):
        require_own(Path("/tmp"), "the folder", "do something")
