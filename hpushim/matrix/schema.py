"""The shape of ``compat_matrix.toml``: tables, columns and every enumeration, and what each means."""

from __future__ import annotations

from typing import Literal

import msgspec

from hpushim.model import Effect, Effort

#: Raised when a reader of an older file could misunderstand a newer one.
FORMAT = 1

Kind = Literal[
    "python",  # a name that Python code resolves: torch.cuda.synchronize
    "argument",  # one argument, or one value of it: torch.load(map_location=), torch.compile(backend='inductor')
    "string",  # a literal in code: 'nccl', 'cuda'
    "env",  # an environment variable
    "flag",  # an option on a command line: accelerate launch --cpu
    "command",  # a program: nvidia-smi
    "config",  # a key in YAML, JSON or TOML: zero_optimization.offload_optimizer
    "package",  # something that is installed and imported: flash_attn
    "image",  # a container image
    "concept",  # behaviour without a name of its own: recompilation on new shapes
]
Status = Literal[
    "native",  # works on Gaudi as written
    "renamed",  # same meaning under the name in `target`
    "changed",  # works after a change of argument, value or expectation, which the note names
    "partial",  # some uses work, others do not: see the note and the limits
    "emulated",  # answered by a substitute: another place (CPU), another dtype, an approximation
    "noop",  # accepted, has no effect
    "unsupported",  # does not work
    "unknown",  # could not be established; never to be shown as support
]
Area = Literal[
    "device",
    "tensor",
    "memory",
    "random",
    "streams",
    "graphs",
    "amp",
    "dtype",
    "op",
    "execution-mode",
    "compile",
    "distributed",
    "optimizer",
    "dataloader",
    "checkpoint",
    "profiling",
    "env",
    "launcher",
    "library",
    "accelerate",
    "transformers",
    "optimum",
    "lightning",
    "deepspeed",
    "sagemaker",
    "mps",
    "intel-cpu",
    "hardware",
]
Runtime = Literal[
    "none",  # the shim does nothing: it works by itself, or nothing can be done
    "net",  # the device hook or the dispatcher net carries it; there is no patch of its own
    "alias",  # the shim calls `target` instead, with device arguments translated
    "noop",  # the shim accepts the call and does nothing
    "constant",  # the shim answers `value`
    "raise",  # the shim raises UnsupportedOnHpu with the row's note
    "patch",  # one function of hpushim.shim.patches carries this row's name
    "block",  # importing the package is refused with the row's note
    "rewrite",  # only `hpushim run` can handle it, by rewriting the source as it is loaded
]
Confidence = Literal[
    "documented",  # a document states it
    "source",  # read in code of the named revision
    "inferred",  # concluded from the named source, not stated there
]
Evidence = Literal[
    "docs",  # a document was read
    "code",  # code was read
    "report",  # an issue, a forum thread or a log of somebody's run
    "emulator",  # run on the emulated HPU
    "torch",  # run on a stock torch without any Gaudi
    "gaudi1",  # run on hardware
    "gaudi2",
    "gaudi3",
    "none",  # nothing but reasoning
]
Change = Literal["drop", "replace", "add", "rename"]
Generation = Literal["gaudi1", "gaudi2", "gaudi3"]
ExecutionMode = Literal["eager", "compile", "lazy"]

_EVIDENCE: dict[str, Evidence] = {"documented": "docs", "source": "code", "inferred": "none"}


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: unknown columns are errors."""


class Limit(Strict, frozen=True, kw_only=True):
    """Where a row's status is another one.

    Empty columns do not limit. ``since`` and ``until`` are releases of the Gaudi software, both
    inclusive (``until = "1.20"`` includes 1.20.1); with ``package`` they are versions of that
    package, which a target does not name, so such a limit is reported but never decides.
    """

    gaudi: tuple[Generation, ...] = ()
    mode: tuple[ExecutionMode, ...] = ()
    since: str = ""
    until: str = ""
    package: str = ""
    status: Status | None = None
    text: str = ""


class Argument(Strict, frozen=True, kw_only=True):
    """What becomes of one argument on the way to ``target``."""

    name: str
    change: Change
    value: str = ""  #: the expression to write, or for ``rename`` the new keyword


class Search(Strict, frozen=True, kw_only=True):
    """A search without a result, on which a row rests that says that nothing was found."""

    words: str  #: a regular expression of git grep, whatever the case
    places: tuple[str, ...]  #: what was searched: keys of [sources], or owner/name


class Row(Strict, frozen=True, kw_only=True):
    """What Gaudi does with one CUDA-side name."""

    name: str
    kind: Kind = "python"
    also: tuple[str, ...] = ()  #: further names of the same thing
    area: Area = "library"
    status: Status
    target: str = (
        ""  #: the name to use on Gaudi, of the same kind where there is one; "" = the same or none
    )
    runtime: Runtime = "none"
    value: str = ""  #: the answer of ``runtime = "constant"``, a Python literal
    warn: bool = False  #: the shim says the note once when the call is reached
    rule: str = ""  #: the code of the rule that finds it in source, HPUnnn
    effort: Effort | None = (
        None  #: what a person spends on one place, where it is not what the rule says of its code
    )
    effect: Effect | None = (
        None  #: what it does to a run, where it is not what the rule says of its code
    )
    careful: bool = False  #: its answer has another shape on Gaudi: renamed only with --unsafe
    #: the place (0-based) of the argument that picks a device; the target takes none
    device_argument: int | None = None
    args: tuple[Argument, ...] = ()
    limits: tuple[Limit, ...] = ()
    torch: str = (
        ""  #: the torch releases that have the name, where not all from 2.6 have: ">=2.9", "<2.10"
    )
    note: str
    source: tuple[str, ...] = ()  #: required in the file that ships; a user's own row needs none
    searched: tuple[Search, ...] = ()  #: required where the note says that nothing was found
    evidence: Evidence | None = None  #: None: the usual one for the confidence
    confidence: Confidence = "documented"
    facts: tuple[str, ...] = ()  #: ids of the collected facts that this row states
    origin: str = ""  #: the file that the row came from; set by the loader, never written in a file

    @property
    def basis(self) -> Evidence:
        """What the row rests on."""
        return self.evidence or _EVIDENCE[self.confidence]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that this row answers for."""
        return (self.name, *self.also)


class Witness(Strict, frozen=True, kw_only=True):
    """Public code that runs on a device what shim or codemods write; without a source none was found."""

    names: tuple[str, ...]
    source: tuple[str, ...] = ()


class Release(Strict, frozen=True, kw_only=True):
    """One release of the Gaudi software."""

    stack: str
    torch: tuple[
        str, ...
    ] = ()  #: the torch versions that it was built with; empty: not established
    default_mode: Literal["eager", "lazy"]
    gaudi: tuple[
        Generation, ...
    ] = ()  #: generations that its support matrix names; empty: not established
    source: tuple[str, ...]
    confidence: Confidence
    note: str = ""


class Ports(Strict, frozen=True, kw_only=True):
    """The network ports of one device."""

    inside: int  #: to the other devices of its server
    outside: int  #: out of the server
    gbit: int  #: Gbit/s of one port, in each direction


class GenerationInfo(Strict, frozen=True, kw_only=True):
    """One generation of the hardware."""

    title: str
    device_name: str  #: what ``torch.hpu.get_device_name()`` answers
    memory_gb: int  #: as the vendor writes it, in GB of 2**30 bytes
    dram_bytes: int = (
        0  #: ``dramSize`` of ``torch.hpu.get_device_properties()``; 0: not established
    )
    tensor_cores: int = (
        0  #: tensor processor cores (TPC), the bits of ``tpcEnabledMask``; 0: not established
    )
    cards: int
    ports: Ports | None = None  #: None: not established
    dtypes: tuple[str, ...]
    kept_as: dict[
        str, str
    ] = {}  #: dtypes that the device takes, and the narrower one that it keeps
    kept_as_in_lazy_mode: dict[str, str] = {}  #: more of them, in lazy mode
    largest: dict[str, float] = {}  #: the largest finite value of a dtype; torch's own unless given
    source: tuple[str, ...]
    note: str = ""

    @property
    def memory_bytes(self) -> int:
        """What the processes of a device may take together: ``dram_bytes``, or the whole device where that is not established."""
        return self.dram_bytes or self.memory_gb << 30


class Source(Strict, frozen=True, kw_only=True):
    """A work that rows cite as ``key:place``; ``{}`` in the address takes the place."""

    title: str
    url: str = ""
    licence: str = ""
    searched: bool = False  #: belongs to each search without a result, unless the row cites it


class Policy(Strict, frozen=True, kw_only=True):
    """Packages by what they mean for code that uses them; the first two lists get False from ``torch.cuda.is_available()`` under the shim."""

    nvidia_only: tuple[str, ...] = ()  #: would pick kernels that only NVIDIA hardware runs
    #: looks for Gaudi itself, and finds it; with the versions that do, where not all do (``lightning<2.5.6``)
    knows_hpu: tuple[str, ...] = ()
    #: is reported that CUDA is there and compares device types itself; `hpushim run` rewrites the comparisons
    compares_devices: tuple[str, ...] = ()
    #: names below ``torch.cuda`` that torch without CUDA answers, or takes, without an error
    without_cuda: tuple[str, ...] = ()
    #: packages that bring torch to the devices of other makers
    other_makers: tuple[str, ...] = ()
    #: frameworks with tensors and devices of their own, by the name that is imported; with the name to print
    frameworks: dict[str, str] = {}
    #: other packages, and names they are imported as, with a ``cuda`` or a ``device`` that is not torch's
    own_devices: tuple[str, ...] = ()
    #: packages made of torch that have no "torch" in their names
    made_of_torch: tuple[str, ...] = ()
    #: PyTorch's own packages: a CUDA build of one says nothing of a project, which takes another on a Gaudi machine
    torch_family: tuple[str, ...] = ()
    #: packages without CUDA code and without a choice of a device, as an audit of the wheel of that version found
    plain: dict[str, str] = {}
    #: packages that are imported by another name than the one they are installed by (lower case, with ``-``)
    distributions: dict[str, str] = {}


class Autocast(Strict, frozen=True, kw_only=True):
    """Operators that autocast treats specially, by lower-case operator name."""

    lower: str = ""
    fp32: str = ""
    promote: str = ""
    source: tuple[str, ...] = ()


class DtypeGate(Strict, frozen=True, kw_only=True):
    """Operators whose kernel takes these dtypes only; others go to the CPU."""

    gaudi: tuple[Generation, ...] = ()
    dtypes: str
    ops: str


class Promotion(Strict, frozen=True, kw_only=True):
    """Operators whose dtype list is looked up by the common type of these arguments, not for each one's."""

    arguments: str
    ops: str


class OpNote(Strict, frozen=True, kw_only=True):
    """Operators that for some arguments leave the device, or fail; the emulator acts on those that say when.

    Each word of ``when`` holds for such a call: ``bias`` (given, or true), ``not sorted``, ``dim != 0``,
    ``reduce != amax``, ``self.ndim >= 5``, ``self.dtype == int64``, ``self.dtype != mat2.dtype``,
    ``self is src``.
    """

    text: str
    ops: str
    when: tuple[str, ...] = ()
    fails: bool = False  #: the call raises, where others run on the CPU
    gaudi: tuple[Generation, ...] = ()
    mode: tuple[ExecutionMode, ...] = ()
    since: str = ""
    source: tuple[str, ...] = ()


class OperatorTable(Strict, frozen=True, kw_only=True):
    """Overloads by support class and namespace, each list one string of names parted by white space.

    ``native`` has a kernel; ``composite`` is taken apart by torch before the device is reached;
    ``default`` has a device-neutral kernel made of other operators; ``fallback`` runs on the CPU;
    ``none`` fails; ``custom`` exists on Gaudi alone.
    """

    source: tuple[str, ...] = ()
    native: dict[str, str] = {}
    composite: dict[str, str] = {}
    default: dict[str, str] = {}
    fallback: dict[str, str] = {}
    none: dict[str, str] = {}
    custom: dict[str, str] = {}
    gate: tuple[DtypeGate, ...] = ()
    promotion: tuple[Promotion, ...] = ()
    implied: dict[
        str, str
    ] = {}  #: dtypes that a list does not name, by the one that represents them
    patched: str = (
        ""  #: the numbers given to these are patched into one graph: another one compiles nothing
    )
    whole: str = ""  #: these take whole numbers through float32 and cut the result off; torch's CPU kernels refuse them
    note: tuple[OpNote, ...] = ()


class Collective(Strict, frozen=True, kw_only=True):
    """What hccl does with the tensors of some collectives, by their names in ``torch.distributed``."""

    names: str
    dtypes: str = ""  #: others raise; empty: any
    exact: str = ""  #: others are converted to float32 and back; empty: all travel as they are
    even_bytes: bool = (
        False  #: tensors of an odd number of bytes raise, where they are not converted
    )
    note: str = ""
    source: tuple[str, ...]
    confidence: Confidence


class MatrixFile(Strict, frozen=True, kw_only=True):
    """A whole file; a user's own file may hold ``row`` and ``sources`` alone."""

    format: int = FORMAT
    sources: dict[str, Source] = {}
    release: tuple[Release, ...] = ()
    generation: dict[Generation, GenerationInfo] = {}
    policy: Policy = Policy()
    autocast: Autocast = Autocast()
    operators: OperatorTable = OperatorTable()
    collective: tuple[Collective, ...] = ()
    witness: tuple[Witness, ...] = ()
    row: tuple[Row, ...] = ()
