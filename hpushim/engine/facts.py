"""What is known about a whole project before its files are read one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path, PurePath

import msgspec

from hpushim.engine.around import Needed, around
from hpushim.engine.base.text import Project
from hpushim.engine.data.pins import pins, says_versions
from hpushim.engine.files.discover import File
from hpushim.engine.links import Links, imported, optional
from hpushim.engine.rules import dispatch, references
from hpushim.engine.rules.registry import rules
from hpushim.engine.rules.wants import ELSEWHERE, FRAMEWORKS, LAUNCHES, SHARED, TRAINS, ProjectFact
from hpushim.patterns import lazily
from hpushim.pycode.words import words_in

#: ``def`` below module level; a nested function counts as a method, which errs on the careful side.
#: Like all patterns here it begins with the newline before: other places are then passed over at the speed of memory.
_METHOD = lazily(rb"\n[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)")
#: Those that are read, not called.
_PROPERTY = lazily(rb"\n[ \t]+@[\w.]*(?:property|\.setter)\b[^\n]*\n[ \t]+def[ \t]+(\w+)")
#: The other statements at the top of a module that give torch's things a name of its own.
_NAMED = lazily(rb"\n(?:import[ \t]+torch[\w.]*[ \t]+as[ \t]+(\w+)|(\w+)[ \t]*=[^\n]*\btorch\.)")
_WORD = lazily(rb"\w+")
_CODE = frozenset({"python", "notebook", "yaml", "json", "toml", "ini", "shell", "makefile"})
#: Folders of documents, whose own code builds them.
_DOCUMENTS = frozenset(["doc", "docs"])
#: What declares options of a command line, and the text of one.
_DECLARES = (b"add_argument", b"add_option", b"click.option")
_OPTION = lazily(rb"[\"'](--[A-Za-z0-9][A-Za-z0-9_-]*)[\"']")


class Said(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What one file says of its project."""

    #: How often each name of a method is defined, properties taken off.
    methods: dict[bytes, int] = {}
    #: The modules and names that it imports, with the words of a file that takes all names of one.
    imports: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    #: The names that it gives to what is torch's, and the options that it declares.
    named: tuple[bytes, ...] = ()
    options: tuple[bytes, ...] = ()
    #: The names of each fact that rules collect, of those that have any.
    collected: dict[str, tuple[bytes, ...]] = {}
    #: Of the texts that rules request, those that are in its code.
    mentioned: tuple[str, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    #: Of the imports those that a run may do without.
    optional: tuple[tuple[str, str], ...] = ()


class Facts:
    """Collects what the files of a project say, each seen once."""

    def __init__(self) -> None:
        self._said: list[tuple[File, Said]] = []
        #: The facts that rules want by name, and how each spreads.
        self._named = dict(fact for rule in rules() for fact in rule.named_facts)
        self._wanted_texts = {text for rule in rules() for text in rule.wants.project}

    def see(self, file: File, data: bytes) -> None:
        self.add(file, self.said(file, data))

    def add(self, file: File, said: Said) -> None:
        """Takes in what a file says."""
        self._said.append((file, said))

    def said(self, file: File, data: bytes) -> Said:
        """What a file says of its project."""
        methods: Counter[bytes] = Counter()
        imports: set[tuple[str, str]] = set()
        words: Iterable[bytes] = ()
        named: set[bytes] = set()
        options: Iterable[bytes] = ()
        collected: dict[str, tuple[bytes, ...]] = {}
        code = b"\n" + data if file.kind in ("python", "notebook") else data
        code = code.replace(b"\r\n", b"\n")  # what is found by lines is found whatever ends them
        for fact in _wanted():
            applies = file.kind in fact.kinds and (fact.of is None or fact.of(file.shown))
            if applies and (found := set(fact.find(code))):
                collected[fact.name] = tuple(sorted(found))
        if file.kind == "python":
            methods.update(_METHOD.findall(code))
            methods.subtract(_PROPERTY.findall(code))
            imports = imported(code)
            if any(name == "*" for _, name in imports):
                words = sorted(set(_WORD.findall(code)))
            named = {one or two for one, two in _NAMED.findall(code)}
            if any(word in code for word in _DECLARES):
                options = sorted(set(_OPTION.findall(code)))
        mentioned = (
            sorted(t for t in self._mentioned(data) if _in_code(data, t.encode()))
            if file.kind in _CODE
            else ()
        )
        pinned = pins(data, file.kind) if says_versions(file.path, file.kind) else {}
        return Said(
            dict(methods),
            tuple(sorted(imports)),
            tuple(map(_text, words)),
            tuple(sorted(named)),
            tuple(options),
            collected,
            tuple(mentioned),
            tuple(pinned.items()),
            tuple(sorted(optional(code))) if file.kind == "python" else (),
        )

    def _mentioned(self, data: bytes) -> frozenset[str]:
        return dispatch.texts(rules()).held(words_in(data)) & self._wanted_texts

    def project(self, root: Path, files: Sequence[File]) -> Project:
        own = modules(root, files)
        methods: Counter[bytes] = Counter()
        for _, said in self._said:
            methods.update(said.methods)
        links = self._links
        return Project(
            frozenset(map(_text, +methods)),
            own,
            tuple(dict.fromkeys(pin for _, said in self._said for pin in said.pins)),
            frozenset(_text(each) for _, said in self._said for each in said.options),
            frozenset(self._imports(own | {file.path.stem for file in files})),
            tuple((name, frozenset(map(_text, self._count(name)))) for name in self._named),
            frozenset(file.shown for file in files if file.kind == "python"),
            frozenset(text for _, said in self._said for text in said.mentioned),
            shadowing(files),
            (
                *(
                    (
                        name,
                        links.around(
                            [f.shown for f, s in self._said if name in s.collected],
                            beside=spreads == "program",
                        ),
                    )
                    for name, spreads in self._named.items()
                    if spreads
                ),
                *self._installs().items(),
            ),
            self._foreign,
        )

    def _installs(self) -> dict[str, frozenset[str]]:
        """For each pin the files of the installs that read it: those in the folder of the file that has it, what their code imports, and the
        other files that say versions for such code alone.

        A folder without code, or of documents, is about the one around it.
        """
        facts = [fact.name for fact in _wanted() if fact.installs]
        found_in = {file.shown: [(name, _text(each)) for name in facts for each in said.collected.get(name, ())] for file, said in self._said}  # fmt: skip
        asking = [(file.shown, [*said.pins, *found_in[file.shown]]) for file, said in self._said]
        asking = [(path, pinned) for path, pinned in asking if pinned]
        if not asking:
            return {}
        code = [f.shown for f, _ in self._said if f.kind in ("python", "notebook")]
        below: dict[PurePath, frozenset[str]] = {}
        for path in code:
            for folder in PurePath(path).parents:
                below[folder] = below.get(folder, frozenset()) | {path}
        others: dict[PurePath, list[str]] = {}
        for file, _ in self._said:
            if file.kind not in ("python", "notebook"):
                others.setdefault(_with_code(PurePath(file.shown), below), []).append(file.shown)
        found: dict[str, frozenset[str]] = {}
        for path, pinned in asking:
            place = PurePath(path)
            if found_in[path]:  # what lies among documents is about what is around those
                place = next((f for f in reversed(place.parents) if f.name in _DOCUMENTS), place)
            run = below.get(_with_code(place, below), frozenset())
            run |= self._links.needs(run)
            files = run.union(*(paths for folder, paths in others.items() if run >= below.get(folder, run)), [path])  # fmt: skip
            for name, versions in pinned:
                found[f"{name}{versions}"] = found.get(f"{name}{versions}", frozenset()) | files
        return found

    def _count(self, fact: str) -> Counter[bytes]:
        """In how many files each name of a fact was found."""
        return Counter(name for _, said in self._said for name in said.collected.get(fact, ()))

    def leads(self, staying: Collection[str], changed: Collection[str]) -> dict[str, str]:
        """The changed files that programs need only through files that stay, each with one of these.

        A file that stays leads nothing where a changed one needs it that does not follow; a program follows none.
        """
        own = {f.shown for f, said in self._said if b"program" in said.collected.get(TRAINS, ())}
        free = {*changed} - self._links.needs(staying)
        gates = {*staying} - self._links.needs(free)
        led = self._links.only_through(gates, ()) - self._links.needs(
            own.intersection(changed), gates
        )
        below = [(gate, self._links.needs({gate})) for gate in sorted(gates)]
        return {path: gate for path in changed if path in led for gate, needs in below[::-1] if path in needs}  # fmt: skip

    def homes(
        self,
        texts: Mapping[str, bytes],
        users: Mapping[str, Collection[str]],
        others: Collection[str],
    ) -> dict[tuple[str, str], str]:
        """Which file defines each name for others that ``users`` came to define, see :mod:`hpushim.engine.homes`.

        For ``others``, which can do without, no further file defines it.
        """
        from hpushim.engine.homes import Homes

        python = {file.shown: said for file, said in self._said if file.kind == "python"}
        imports = {path: said.imports for path, said in python.items()}
        found = Homes(imports, texts, references.ambient(rules())[0])
        homes: dict[tuple[str, str], str] = {}
        names = Counter(name for defined in users.values() for name in defined)
        shared = {path: {*map(_text, said.collected.get(SHARED, ()))} for path, said in python.items()}  # fmt: skip
        for name in sorted({*names, *(each for has in shared.values() for each in has)}, key=lambda name: (-names[name], name)):  # fmt: skip
            made = {path for path, has in shared.items() if name in has}
            need = [path for path, defined in users.items() if name in defined]
            first = found.of(need, made)
            first |= found.of(others, {*made, *(p for p, home in first.items() if not home)}, further=False)  # fmt: skip
            homes |= {(path, name): home for path, home in first.items()}
        return homes

    @property
    def _foreign(self) -> frozenset[str]:
        """The files that another framework runs; what imports by names that it makes may run both."""
        python = [
            (file.shown, said.collected) for file, said in self._said if file.kind == "python"
        ]
        others = [path for path, said in python if {*said.get(FRAMEWORKS, ())} - {b"", ELSEWHERE}]
        if not others:
            return frozenset()
        ours = [path for path, said in python if b"" in said.get(FRAMEWORKS, ()) or b"loads" in said.get(TRAINS, ())]  # fmt: skip
        return self._links.needing(others) - self._links.needing(ours)

    @property
    def other_framework(self) -> str:
        """The framework that most files import, where none imports one that the rules are about; else ""."""
        count = self._count(FRAMEWORKS)
        if not count or b"" in count:
            return ""
        return min(count, key=lambda name: (-count[name], name)).decode()

    @property
    def needed(self) -> Needed:
        """Which files are needed for what."""
        says = {file.shown: said.collected.get(TRAINS, ()) for file, said in self._said}
        return around(
            says,
            [path for path, found in says.items() if b"trains" in found],
            [
                path
                for path, found in says.items()
                if b"program" in found or path.endswith("__main__.py")
            ],
            [path for path, found in says.items() if b"loads" in found],
            self._links,
            {
                file.shown: _is_ours(said.collected[FRAMEWORKS])
                for file, said in self._said
                if said.collected.get(FRAMEWORKS)
            },
            {
                file.shown: [_text(each.partition(b" ")[2]) for each in said.collected[LAUNCHES]]
                for file, said in self._said
                if said.collected.get(LAUNCHES)
            },
            {module.partition(".")[0] for _, said in self._said for module, _ in said.imports},
        )

    def listed(self, path: str) -> bool:
        """May what loads whole folders load a file: all below a package that does so, else any?"""
        return any(
            b"lists" in said.collected.get(TRAINS, ())
            and (file.path.name != "__init__.py" or path.startswith(file.shown.removesuffix("__init__.py")))
            for file, said in self._said
        )  # fmt: skip

    def fed(self, around: Collection[str]) -> frozenset[str]:
        """The files whose code workers run that read samples, on the CPU; what is ``around`` may use it as well."""
        says = {file.shown: said.collected.get(TRAINS, ()) for file, said in self._said}
        computes = {path for path, found in says.items() if b"computes" in found}
        gates = {path for path, found in says.items() if b"samples" in found} - computes
        return self._links.only_through(gates, around) - computes if gates else frozenset()

    @cached_property
    def _links(self) -> Links:
        python = [(f.shown, said) for f, said in self._said if f.kind == "python"]
        return Links(
            {path: said.imports for path, said in python},
            {path: said.optional for path, said in python if said.optional},
        )

    def _imports(self, own: frozenset[str]) -> Iterator[tuple[str, str]]:
        """What is imported from the project's own modules; a script's neighbours are found without their package."""
        every = [said for _, said in self._said]
        named = {_text(name) for said in every for name in said.named}
        for module, name in {one for said in every for one in said.imports if one[1]}:
            if name != "*" and (module.startswith(".") or module.partition(".")[0] in own):
                yield module.rpartition(".")[2], name
            named.add(name)
        for said in every:
            used = named.intersection(said.words)
            for module in [module for module, name in said.imports if name == "*"]:
                for name in used:
                    yield module.rpartition(".")[2], name


def _with_code(path: PurePath, below: Mapping[PurePath, Collection[str]]) -> PurePath:
    """The folder of a file, or the nearest around it that has code."""
    return next((folder for folder in path.parents if below.get(folder)), PurePath())


@cache
def _wanted() -> tuple[ProjectFact, ...]:
    """The facts that rules want; imports what finds them."""
    return tuple(dict.fromkeys(fact for rule in rules() for fact in rule.facts))


def _is_ours(found: Collection[bytes]) -> bool | None:
    """Does a file import the framework that the rules are about? None where it does so for other devices."""
    return None if ELSEWHERE in found else b"" in found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _in_code(data: bytes, text: bytes) -> bool:
    """Is the text in a line before any ``#``?"""
    at = data.find(text)
    while at >= 0:
        if b"#" not in data[data.rfind(b"\n", 0, at) + 1 : at]:
            return True
        at = data.find(text, at + 1)
    return False


def modules(root: Path, files: Sequence[File]) -> frozenset[str]:
    """The names under which the project's own modules and packages can be imported."""
    found: set[str] = set()
    packages = {file.path.parent for file in files if file.path.name == "__init__.py"}
    for file in files:
        if file.kind != "python":
            continue
        folder = file.path.parent
        if folder not in packages and file.path.stem.isidentifier():
            found.add(file.path.stem)
        for inner in (folder, *folder.parents):
            if inner == root or root not in inner.parents:
                break
            if packages.isdisjoint(inner.parents) and inner.name.isidentifier():
                found.add(inner.name)
    return frozenset(found)


def shadowing(files: Sequence[File]) -> frozenset[str]:
    """The top-level names that Python takes before an installed package: a folder without ``__init__.py`` comes after it."""
    python = [file.path for file in files if file.kind == "python"]
    packages = {path.parent for path in python if path.name == "__init__.py"}
    tops = {path.name for path in packages if path.parent not in packages}
    return frozenset(tops | {path.stem for path in python if path.parent not in packages})
