"""The CUDA idioms of training code, each as a snippet that asserts what it needs; run by ``idiom_runner.py``.

A snippet sees ``torch``, ``nn``, ``F``, ``np``, ``dist`` and ``tmp`` (an empty directory). ``early`` names are imported before the shim.
``expect`` is ``ok``, or the code with which the shim refuses or warns.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Idiom:
    """One snippet; ``group`` decides the process that it shares."""

    name: str
    code: str
    early: str = ""
    expect: str = "ok"
    group: str = "plain"


def _(name: str, code: str, *, early: str = "", expect: str = "ok", group: str = "plain") -> Idiom:
    return Idiom(name, code, early, expect, "early" if early else group)


FACTORIES = [
    _("zeros cuda", 'assert torch.zeros(2, device="cuda").device.type == "hpu"'),
    _("zeros cuda:3", 'assert str(torch.zeros(2, device="cuda:3").device) == "hpu:0"'),
    _(
        "zeros f-string",
        'rank = 1\nassert str(torch.zeros(2, device=f"cuda:{rank}").device) == "hpu:0"',
    ),
    _("zeros int", 'assert torch.zeros(2, device=0).device.type == "hpu"'),
    _(
        "zeros device object",
        'assert torch.zeros(2, device=torch.device("cuda")).device.type == "hpu"',
    ),
    _(
        "zeros device with index",
        'assert torch.zeros(2, device=torch.device("cuda", 1)).device.index == 0',
    ),
    _("tensor", 'assert torch.tensor([1.0, 2], device="cuda").sum().item() == 3'),
    _("tensor cuda:0", 'assert torch.tensor([1.0], device="cuda:0").device.type == "hpu"'),
    _("as_tensor numpy", 'assert torch.as_tensor(np.ones(3), device="cuda").device.type == "hpu"'),
    _(
        "from_numpy cuda",
        'assert torch.from_numpy(np.ones(3, dtype="f4")).cuda().sum().item() == 3',
    ),
    _("ones_like", 'assert torch.ones_like(torch.zeros(2), device="cuda").device.type == "hpu"'),
    _(
        "randperm arange eye full",
        """
for t in (torch.randperm(4, device="cuda"), torch.arange(4, device="cuda:0"), torch.eye(3, device="cuda"),
          torch.full((2,), 1.0, device="cuda"), torch.linspace(0, 1, 3, device="cuda"), torch.randint(0, 3, (2,), device="cuda")):
    assert t.device.type == "hpu"
""",
    ),
    _("fftfreq", 'assert torch.fft.fftfreq(4, device="cuda").device.type == "hpu"'),
    _(
        "sparse_coo",
        'torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2), (2,), device="cuda")',
        expect="NotImplementedError",
    ),
    _("hann_window", 'assert torch.hann_window(4, device="cuda").device.type == "hpu"'),
    _(
        "complex and normal",
        'assert torch.normal(0.0, 1.0, (2,), device="cuda").device.type == "hpu"',
    ),
    _(
        "nested",
        """
n = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device="cuda", layout=torch.jagged)
assert n.device.type == "hpu"
""",
    ),
    _("new_zeros", 'assert torch.zeros(1).new_zeros(2, device="cuda").device.type == "hpu"'),
    _(
        "new_tensor",
        'assert torch.zeros(1).new_tensor([1.0], device="cuda:0").device.type == "hpu"',
    ),
]

MOVES = [
    _("to cuda", 'assert torch.ones(2).to("cuda").device.type == "hpu"'),
    _(
        "to cuda:0 non_blocking",
        'assert torch.ones(2).to("cuda:0", non_blocking=True).device.type == "hpu"',
    ),
    _("to device=", 'assert torch.ones(2).to(device="cuda").device.type == "hpu"'),
    _(
        "to device and dtype",
        't = torch.ones(2).to(torch.device("cuda"), torch.float16)\nassert t.device.type == "hpu" and t.dtype == torch.float16',
    ),
    _(
        "to cuda half",
        't = torch.ones(2).to("cuda", torch.half)\nassert t.device.type == "hpu" and t.dtype == torch.half',
    ),
    _(
        "to int",
        'assert torch.ones(2).to(0).device.type == "hpu"\nassert torch.ones(2).to(1).device.index == 0',
    ),
    _(
        "to other tensor",
        'assert torch.ones(2).to(torch.zeros(1, device="cuda")).device.type == "hpu"',
    ),
    _("cuda()", 'assert torch.ones(2).cuda().device.type == "hpu"'),
    _(
        "cuda(rank)",
        'assert torch.ones(2).cuda(1).device.type == "hpu"\nassert torch.ones(2).cuda(device="cuda:2").device.index == 0',
    ),
    _(
        "cuda(non_blocking)",
        'assert torch.ones(2).cuda(non_blocking=True).device.type == "hpu"\nassert torch.ones(2).cuda(0, True).is_cuda',
    ),
    _(
        "type(cuda string)",
        't = torch.ones(2).type("torch.cuda.FloatTensor")\nassert t.device.type == "hpu" and t.dtype == torch.float32',
    ),
    _("type() compare", 'assert torch.ones(2, device="cuda").type() == "torch.cuda.FloatTensor"'),
    _(
        "cuda.FloatTensor",
        't = torch.cuda.FloatTensor(2, 3)\nassert t.shape == (2, 3) and t.device.type == "hpu"',
    ),
    _(
        "cuda.LongTensor list",
        't = torch.cuda.LongTensor([1, 2])\nassert t.tolist() == [1, 2] and t.dtype == torch.long and t.device.type == "hpu"',
    ),
    _(
        "isinstance cuda.FloatTensor",
        "assert isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)\nassert not isinstance(torch.ones(1), torch.cuda.FloatTensor)",
    ),
    _(
        "type(cuda class)",
        't = torch.ones(2).type(torch.cuda.HalfTensor)\nassert t.device.type == "hpu" and t.dtype == torch.half',
    ),
    _(
        "set_default_tensor_type class",
        """
torch.set_default_tensor_type(torch.cuda.FloatTensor)
try:
    assert torch.ones(1).device.type == "hpu"
finally:
    torch.set_default_tensor_type(torch.FloatTensor)
assert torch.ones(1).device.type == "cpu"
""",
    ),
    _(
        "set_default_tensor_type string",
        """
torch.set_default_tensor_type("torch.cuda.FloatTensor")
try:
    assert torch.ones(1).device.type == "hpu"
finally:
    torch.set_default_tensor_type("torch.FloatTensor")
assert torch.ones(1).device.type == "cpu"
""",
    ),
    _("storage.cuda", 'assert torch.ones(2).untyped_storage().cuda().device.type == "hpu"'),
    _("cpu round trip", "assert torch.equal(torch.arange(3).cuda().cpu(), torch.arange(3))"),
]

DEVICES = [
    _("is_cuda", "assert torch.ones(1).cuda().is_cuda is True and torch.ones(1).is_cuda is False"),
    _("param is_cuda", "assert nn.Linear(1, 1).cuda().weight.is_cuda"),
    _("next(parameters).is_cuda", "assert next(nn.Linear(1, 1).cuda().parameters()).is_cuda"),
    _(
        "device.type compare",
        'x = torch.ones(1).cuda()\nassert x.device.type == "cuda"',
        group="rewritten",
    ),
    _(
        "device.type not equal",
        'x = torch.ones(1)\nassert x.device.type != "cuda"\nassert not (x.cuda().device.type != "cuda")',
        group="rewritten",
    ),
    _(
        "cuda in str(device)",
        'x = torch.ones(1).cuda()\nassert "cuda" in str(x.device)',
        group="rewritten",
    ),
    _(
        "str(device) startswith",
        'x = torch.ones(1).cuda()\nassert str(x.device).startswith("cuda")',
        group="rewritten",
    ),
    _(
        "type in tuple",
        'x = torch.ones(1).cuda()\nassert x.device.type in ("cuda", "xpu")',
        group="rewritten",
    ),
    _(
        "type as key",
        'x = torch.ones(1).cuda()\nassert {"cuda": 1, "cpu": 2}[x.device.type] == 1',
        group="rewritten",
    ),
    _(
        "match type",
        """
device = torch.ones(1).cuda().device
match device.type:
    case "cuda":
        found = 1
    case _:
        found = 2
assert found == 1
""",
        group="rewritten",
    ),
    _("device == device('cuda:0')", 'assert torch.ones(1).cuda().device == torch.device("cuda:0")'),
    _(
        "device == device('cuda')",
        'assert torch.device("cuda") == torch.device("cuda")\nassert torch.ones(1).cuda().device.type == torch.device("cuda").type',
    ),
    _("isinstance device", 'assert isinstance(torch.device("cuda"), torch.device)'),
    _(
        "pickle and deepcopy device",
        """
import copy, pickle
d = torch.device("cuda:1")
assert pickle.loads(pickle.dumps(d)) == d == copy.deepcopy(d) and d.type == "hpu"
""",
    ),
    _(
        "type hints",
        "from typing import Optional, Union\nOptional[torch.device], Union[str, torch.device], torch.device | None",
    ),
    _(
        "singledispatch",
        """
import functools
@functools.singledispatch
def f(x): return 0
@f.register
def _(x: torch.device): return 1
assert f(torch.device("cuda")) == 1
""",
    ),
    _(
        "dataclass default",
        """
from dataclasses import dataclass
@dataclass
class D:
    device: torch.device = torch.device("cuda")
assert D().device.type == "hpu"
""",
    ),
    _(
        "factories with rank",
        "rank = 1\nfor t in (torch.zeros(2, device=rank), torch.tensor([1.0], device=rank), torch.zeros(1).new_zeros(2, device=rank)):\n    assert t.device.index == 0 and t.is_cuda",
    ),
    _(
        "default device reaches replaced factories",
        'with torch.device("cuda:1"):\n    for t in (torch.tensor([1.0]), torch.zeros(1), torch.as_tensor([1]), torch.randn(2)):\n        assert t.is_cuda\n    assert not torch.zeros(1, device="cpu").is_cuda',
    ),
    _("device(0)", 'assert torch.device(0).type == "hpu" and torch.device(2).index == 0'),
    _("device(type=, index=)", 'assert str(torch.device(type="cuda", index=2)) == "hpu:0"'),
    _(
        "device bogus",
        """
try:
    torch.device("bogus")
except RuntimeError as error:
    assert "bogus" in str(error)
else:
    raise AssertionError
""",
    ),
    _(
        "other devices stay",
        'assert str(torch.device("cpu")) == "cpu" and str(torch.device("meta", 0)) == "meta:0"',
    ),
    _("get_device", "assert torch.ones(1).cuda(3).get_device() == 0"),
    _("accelerator", 'assert torch.accelerator.current_accelerator().type == "hpu"'),
    _("version.cuda untouched", "assert torch.version.cuda is None"),
    _(
        "only device arguments",
        """
path = tmp / "cuda_run"
path.mkdir()
torch.save(torch.ones(1), path / "cuda.pt")
assert torch.load(str(path / "cuda.pt")).item() == 1
""",
    ),
]

MODULES = [
    _("model.cuda", 'assert nn.Linear(1, 1).cuda().weight.device.type == "hpu"'),
    _("model.cuda(rank)", "assert nn.Linear(1, 1).cuda(3).weight.device.index == 0"),
    _("model.to cuda", 'assert nn.Linear(1, 1).to("cuda").weight.device.type == "hpu"'),
    _(
        "model.to device=",
        'assert nn.Linear(1, 1).to(device=torch.device("cuda:1")).weight.device.type == "hpu"',
    ),
    _("model.to rank", "assert nn.Linear(1, 1).to(1).weight.device.index == 0"),
    _("Linear(device=)", 'assert nn.Linear(1, 1, device="cuda").weight.device.type == "hpu"'),
    _(
        "meta to_empty",
        'assert nn.Linear(1, 1, device="meta").to_empty(device="cuda").weight.device.type == "hpu"',
    ),
    _(
        "with device",
        'with torch.device("cuda"):\n    assert torch.ones(1).device.type == "hpu"\nassert torch.ones(1).device.type == "cpu"',
    ),
    _(
        "set_default_device",
        """
torch.set_default_device("cuda")
try:
    assert torch.ones(1).device.type == "hpu"
finally:
    torch.set_default_device(None)
""",
    ),
    _(
        "set_default_device cuda:1",
        """
torch.set_default_device("cuda:1")
try:
    assert torch.ones(1).device.index == 0
finally:
    torch.set_default_device("cpu")
    torch.set_default_device(None)
""",
    ),
    _(
        "optimizer before and after",
        """
m = nn.Linear(2, 2)
o = torch.optim.SGD(m.parameters(), 0.1)
m.cuda()
m(torch.ones(1, 2).cuda()).sum().backward()
before = m.weight.detach().clone()
o.step()
assert not torch.equal(before, m.weight)
""",
    ),
    _(
        "DataParallel",
        """
m = nn.DataParallel(nn.Linear(2, 2).cuda())
assert m(torch.ones(1, 2).cuda()).shape == (1, 2)
""",
    ),
    _(
        "DataParallel two devices",
        "nn.DataParallel(nn.Linear(2, 2).cuda(), device_ids=[0, 1])",
        expect="HPU308",
    ),
    _(
        "share storage",
        "a = torch.ones(2).cuda()\nb = a.view(2, 1)\nb.zero_()\nassert a.sum().item() == 0",
    ),
]

CUDA = [
    _("is_available", "assert torch.cuda.is_available()"),
    _("device_count", "assert torch.cuda.device_count() == 1"),
    _(
        "set_device",
        'torch.cuda.set_device(0)\ntorch.cuda.set_device("cuda:0")\ntorch.cuda.set_device(torch.device("cuda", 0))',
    ),
    _("current_device", "assert torch.cuda.current_device() == 0"),
    _(
        "synchronize",
        'torch.cuda.synchronize()\ntorch.cuda.synchronize(0)\ntorch.cuda.synchronize(device="cuda:0")',
    ),
    _(
        "manual_seed_all",
        """
torch.cuda.manual_seed_all(3)
a = torch.rand(3, device="cuda")
torch.cuda.manual_seed(3)
assert torch.equal(a, torch.rand(3, device="cuda"))
""",
    ),
    _(
        "manual_seed",
        """
torch.manual_seed(3)
a = torch.rand(3, device="cuda")
torch.manual_seed(3)
assert torch.equal(a, torch.rand(3, device="cuda"))
""",
    ),
    _(
        "memory_allocated",
        """
x = torch.ones(1000, device="cuda")
assert torch.cuda.memory_allocated() >= 4000 and torch.cuda.max_memory_allocated(0) >= 4000
torch.cuda.reset_peak_memory_stats()
torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()
f"{torch.cuda.max_memory_allocated() / 1024 ** 2:.1f}"
""",
    ),
    _("memory_stats", 'assert torch.cuda.memory_stats().get("allocated_bytes.all.peak", 0) >= 0'),
    _("mem_get_info", "free, total = torch.cuda.mem_get_info()\nassert 0 < free <= total"),
    _("empty_cache", "torch.cuda.empty_cache()\ntorch.cuda.ipc_collect()"),
    _("memory_summary", "assert isinstance(torch.cuda.memory_summary(), str)"),
    _("set_per_process_memory_fraction", "torch.cuda.set_per_process_memory_fraction(0.5)"),
    _("get_device_name", "assert isinstance(torch.cuda.get_device_name(0), str)"),
    _(
        "get_device_properties",
        "p = torch.cuda.get_device_properties(0)\nassert p.total_memory > 0 and p.name",
    ),
    _("get_device_capability", "assert torch.cuda.get_device_capability() >= (8, 0)"),
    _(
        "rng_state",
        """
state = torch.cuda.get_rng_state()
a = torch.rand(3, device="cuda")
torch.cuda.set_rng_state(state)
assert torch.equal(a, torch.rand(3, device="cuda"))
torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
""",
    ),
    _(
        "event timing",
        """
a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
a.record(); torch.ones(10, device="cuda").sum(); b.record()
torch.cuda.synchronize()
assert a.elapsed_time(b) >= 0 and b.query()
""",
    ),
    _(
        "event isinstance",
        "assert isinstance(torch.cuda.Event(), torch.cuda.Event) or True\ne = torch.cuda.Event(); e.record(torch.cuda.current_stream()); e.synchronize()",
    ),
    _(
        "stream",
        """
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    x = torch.ones(2, device="cuda")
torch.cuda.current_stream().wait_stream(s)
s.synchronize()
assert x.sum().item() == 2
""",
    ),
    _(
        "stream prefetcher",
        """
s = torch.cuda.Stream(device="cuda:0")
with torch.cuda.stream(s):
    x = torch.ones(2).pin_memory().cuda(non_blocking=True)
torch.cuda.current_stream().wait_stream(s)
x.record_stream(torch.cuda.current_stream())
""",
    ),
    _(
        "with cuda.device",
        'with torch.cuda.device(0):\n    assert torch.ones(1, device="cuda").is_cuda\nwith torch.cuda.device(torch.device("cuda:1")):\n    pass\nwith torch.cuda.device_of(torch.ones(1).cuda()):\n    pass',
    ),
    _(
        "nvtx push pop",
        'torch.cuda.nvtx.range_push("a")\ntorch.cuda.nvtx.range_pop()\ntorch.cuda.nvtx.mark("b")',
    ),
    _("nvtx range", 'with torch.cuda.nvtx.range("a"):\n    pass'),
    _(
        "CUDAGraph",
        "g = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    pass",
        expect="HPU416",
    ),
    _("cudart", "torch.cuda.cudart().cudaProfilerStart()", expect="HPU417"),
    _("is_bf16_supported", "assert torch.cuda.is_bf16_supported()"),
    _("is_initialized init", "torch.cuda.init()\nassert torch.cuda.is_initialized()"),
    _("get_arch_list", "assert torch.cuda.get_arch_list() == []"),
    _(
        "getattr",
        'assert getattr(torch, "cuda").is_available() and getattr(torch.cuda, "device_count")() == 1',
    ),
    _("cuda_ok = is_available", "cuda_ok = torch.cuda.is_available\nassert cuda_ok()"),
    _(
        "mock.patch is_available",
        """
from unittest import mock
with mock.patch("torch.cuda.is_available", return_value=False):
    assert not torch.cuda.is_available()
assert torch.cuda.is_available()
""",
    ),
    _(
        "monkey patch synchronize",
        """
saved = torch.cuda.synchronize
torch.cuda.synchronize = lambda *a: 7
assert torch.cuda.synchronize() == 7
torch.cuda.synchronize = saved
torch.cuda.synchronize()
""",
    ),
    _(
        "fork_rng",
        'with torch.random.fork_rng(devices=[0]):\n    torch.rand(1, device="cuda")\nwith torch.random.fork_rng():\n    pass',
    ),
    _(
        "generator",
        """
g = torch.Generator(device="cuda").manual_seed(1)
a = torch.rand(2, device="cuda", generator=g)
g = torch.Generator("cuda:0").manual_seed(1)
assert torch.equal(a, torch.rand(2, device="cuda", generator=g)) and g.device.type == "hpu"
""",
    ),
    _(
        "worker thread",
        """
import threading
found = []
t = threading.Thread(target=lambda: found.append(torch.zeros(1, device="cuda").device.type))
t.start(); t.join()
assert found == ["hpu"]
""",
    ),
    _("unknown function", "torch.cuda.set_sync_debug_mode(0)", expect="HPU|ok"),
    _("nccl version", "torch.cuda.nccl.version()", expect="HPU"),
]

AMP = [
    _(
        "autocast cuda fp16",
        """
with torch.autocast("cuda", dtype=torch.float16):
    y = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
assert y.dtype == torch.bfloat16
""",
    ),
    _(
        "autocast device_type",
        """
with torch.autocast(device_type="cuda"):
    y = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
    assert torch.is_autocast_enabled()
assert y.dtype == torch.bfloat16 and not torch.is_autocast_enabled()
""",
    ),
    _(
        "amp.autocast",
        """
with torch.amp.autocast("cuda", enabled=True, dtype=torch.bfloat16):
    assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
""",
    ),
    _(
        "cuda.amp.autocast",
        """
with torch.cuda.amp.autocast():
    y = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
assert y.dtype == torch.bfloat16
""",
    ),
    _(
        "cuda.amp.autocast positional",
        """
with torch.cuda.amp.autocast(True, torch.float16):
    y = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
assert y.dtype == torch.bfloat16
with torch.cuda.amp.autocast(enabled=False):
    assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.float32
""",
    ),
    _(
        "autocast of device.type",
        """
device = torch.device("cuda")
with torch.autocast(device.type):
    assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == torch.bfloat16
""",
    ),
    _(
        "autocast float32",
        """
with torch.autocast("cuda", dtype=torch.float32):
    assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.float32
""",
    ),
    _(
        "autocast cpu untouched",
        """
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
""",
    ),
    _(
        "partial autocast",
        """
import functools
amp = functools.partial(torch.autocast, "cuda", dtype=torch.float16)
with amp():
    assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
""",
    ),
    _(
        "autocast decorator",
        """
@torch.cuda.amp.autocast()
def f(a): return a @ a
assert f(torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
""",
    ),
    _(
        "custom_fwd custom_bwd",
        """
class G(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x): return x * 2
    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, g): return g * 2
x = torch.ones(2, device="cuda", requires_grad=True)
with torch.autocast("cuda"):
    y = G.apply(x)
y.sum().backward()
assert x.grad.sum().item() == 4
""",
    ),
    _(
        "custom_fwd device_type",
        """
class G(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx, x):
        assert x.dtype == torch.bfloat16
        return x * 2
    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, g): return g * 2
x = torch.ones(2, device="cuda", requires_grad=True)
with torch.autocast("cuda"):
    G.apply(x).sum().backward()
""",
    ),
    _(
        "cuda.amp.GradScaler loop",
        """
m = nn.Linear(2, 2).cuda(); o = torch.optim.SGD(m.parameters(), 0.1); s = torch.cuda.amp.GradScaler()
w = m.weight.detach().clone()
loss = m(torch.ones(1, 2).cuda()).sum()
s.scale(loss).backward()
s.unscale_(o)
nn.utils.clip_grad_norm_(m.parameters(), 1.0)
s.step(o); s.update()
assert s.get_scale() == 1.0 and not torch.equal(w, m.weight)
""",
    ),
    _(
        "amp.GradScaler loop",
        """
m = nn.Linear(2, 2).cuda(); o = torch.optim.SGD(m.parameters(), 0.1); s = torch.amp.GradScaler("cuda", init_scale=1024.0)
s.scale(m(torch.ones(1, 2).cuda()).sum()).backward(); s.step(o); s.update(); o.zero_grad(set_to_none=True)
""",
    ),
    _(
        "GradScaler states",
        """
s = torch.cuda.amp.GradScaler()
state = s.state_dict()
assert state["scale"] == 65536.0 and state["growth_interval"] == 2000
old = {"scale": 512.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 7}
s.load_state_dict(old)
assert s.state_dict() == old
s.load_state_dict({})
assert torch.cuda.amp.GradScaler(enabled=False).state_dict() == {}
assert s.get_growth_factor() == 2.0 and s.get_backoff_factor() == 0.5
""",
    ),
    _(
        "is_autocast_enabled by name",
        """
with torch.autocast("cuda"):
    assert torch.is_autocast_enabled("cuda")
""",
    ),
    _(
        "get_autocast_gpu_dtype",
        """
assert torch.get_autocast_gpu_dtype() == torch.bfloat16
torch.set_autocast_gpu_dtype(torch.float16)
assert torch.get_autocast_gpu_dtype() == torch.bfloat16 == torch.get_autocast_dtype("cuda")
""",
    ),
    _(
        "whole AMP step",
        """
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()
o = torch.optim.AdamW(m.parameters(), 0.01); s = torch.cuda.amp.GradScaler()
x, y = torch.randn(16, 4).cuda(), torch.randn(16, 1).cuda()
losses = []
for _ in range(5):
    o.zero_grad()
    with torch.cuda.amp.autocast():
        loss = F.mse_loss(m(x), y)
    s.scale(loss).backward(); s.step(o); s.update(); losses.append(loss.item())
assert losses[-1] < losses[0]
""",
    ),
]

DISTRIBUTED = [
    _(
        "init nccl, new_group, get_backend",
        """
dist.init_process_group("nccl", init_method=f"file://{tmp}/cuda_nccl_store", rank=0, world_size=1)
try:
    g = dist.new_group([0], backend="nccl")
    assert dist.get_backend() == "nccl" == dist.get_backend(g)
    assert dist.get_backend() == dist.Backend.NCCL
    t = torch.ones(2, device="cuda")
    dist.all_reduce(t); dist.broadcast(t, 0); dist.barrier(device_ids=[0])
    assert t.sum().item() == 2
    m = nn.parallel.DistributedDataParallel(nn.Linear(2, 2).cuda(0), device_ids=[0], output_device=0)
    m(torch.ones(1, 2).cuda()).sum().backward()
    assert m.module.weight.grad is not None
    mesh = dist.device_mesh.init_device_mesh("cuda", (1,))
    assert mesh.device_type == "hpu"
finally:
    dist.destroy_process_group()
""",
        group="distributed",
    ),
    _(
        "init device_id",
        """
dist.init_process_group(backend="nccl", init_method=f"file://{tmp}/store", rank=0, world_size=1, device_id=torch.device("cuda:0"))
dist.destroy_process_group()
""",
        group="distributed",
    ),
    _(
        "init multi backend",
        """
dist.init_process_group(backend="cpu:gloo,cuda:nccl", init_method=f"file://{tmp}/store", rank=0, world_size=1)
try:
    dist.all_reduce(torch.ones(1)); dist.all_reduce(torch.ones(1).cuda())
finally:
    dist.destroy_process_group()
""",
        group="distributed",
    ),
    _(
        "init default backend",
        """
dist.init_process_group(init_method=f"file://{tmp}/store", rank=0, world_size=1)
try:
    dist.all_reduce(torch.ones(1).cuda())
finally:
    dist.destroy_process_group()
""",
        group="distributed",
    ),
    _(
        "gloo untouched",
        """
dist.init_process_group("gloo", init_method=f"file://{tmp}/store", rank=0, world_size=1)
assert dist.get_backend() == "gloo"
dist.destroy_process_group()
""",
        group="distributed",
    ),
    _("is_nccl_available", "assert dist.is_nccl_available()", group="distributed"),
    _(
        "FSDP device_id",
        """
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
dist.init_process_group("nccl", init_method=f"file://{tmp}/store", rank=0, world_size=1)
try:
    m = FSDP(nn.Linear(2, 2).cuda(), device_id=torch.cuda.current_device())
    m(torch.ones(1, 2).cuda()).sum().backward()
finally:
    dist.destroy_process_group()
""",
        group="distributed",
    ),
]

CHECKPOINTS = [
    _(
        "load map_location cuda",
        'torch.save({"w": torch.ones(2)}, tmp / "a.pt")\nassert torch.load(tmp / "a.pt", map_location="cuda")["w"].device.type == "hpu"',
    ),
    _(
        "load map_location f-string",
        'r = 2\ntorch.save(torch.ones(2), tmp / "a.pt")\nassert torch.load(tmp / "a.pt", map_location=f"cuda:{r}").device.index == 0',
    ),
    _(
        "load map_location device",
        'torch.save(torch.ones(2), tmp / "a.pt")\nassert torch.load(tmp / "a.pt", map_location=torch.device("cuda")).is_cuda',
    ),
    _(
        "load map_location dict",
        'torch.save(torch.ones(2).cuda(), tmp / "a.pt")\nassert torch.load(tmp / "a.pt", map_location={"cuda:0": "cuda:1", "hpu:0": "cuda:1"}).device.index == 0',
    ),
    _(
        "load CUDA checkpoint",
        """
import hpushim.shim.patches.checkpoint as c
data = torch.ones(2).cuda()
torch.save(data, tmp / "a.pt")
raw = (tmp / "a.pt").read_bytes()
assert torch.load(tmp / "a.pt").device.type == "hpu"
import io
saved = torch.serialization.location_tag
torch.serialization.location_tag = lambda storage: "cuda:1"
try:
    torch.save(torch.full((2,), 3.0), tmp / "b.pt")
finally:
    torch.serialization.location_tag = saved
assert b"cuda:1" in (tmp / "b.pt").read_bytes()
t = torch.load(tmp / "b.pt")
assert str(t.device) == "hpu:0" and t.sum().item() == 6
assert torch.load(tmp / "b.pt", map_location="cpu").device.type == "cpu"
""",
    ),
    _(
        "load map_location lambda",
        'torch.save(torch.ones(2), tmp / "a.pt")\nassert torch.load(tmp / "a.pt", map_location=lambda s, l: s.cuda(0)).is_cuda\nassert torch.load(tmp / "a.pt", map_location=lambda s, l: s).device.type == "cpu"',
    ),
    _(
        "save tag cuda",
        """
import os
os.environ["HPUSHIM_SAVE_TAG"] = "cuda"
try:
    torch.save(torch.ones(2).cuda(), tmp / "a.pt")
finally:
    del os.environ["HPUSHIM_SAVE_TAG"]
assert b"cuda:0" in (tmp / "a.pt").read_bytes() and torch.load(tmp / "a.pt").is_cuda
""",
    ),
    _(
        "state dict round trip",
        """
m = nn.Linear(2, 2).cuda(); o = torch.optim.Adam(m.parameters())
m(torch.ones(1, 2).cuda()).sum().backward(); o.step()
torch.save({"m": m.state_dict(), "o": o.state_dict()}, tmp / "a.pt")
c = torch.load(tmp / "a.pt", map_location="cuda:0")
m.load_state_dict(c["m"]); o.load_state_dict(c["o"])
""",
    ),
]

DATA = [
    _(
        "DataLoader pin_memory_device",
        """
from torch.utils.data import DataLoader, TensorDataset
for pinned in (dict(pin_memory=True), dict(pin_memory=True, pin_memory_device="cuda")):
    for (x,) in DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, **pinned):
        assert x.to("cuda", non_blocking=True).is_cuda
""",
    ),
    _(
        "DataLoader workers",
        """
from torch.utils.data import DataLoader, TensorDataset
seen = [x.cuda(non_blocking=True).sum().item() for (x,) in DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, num_workers=2, pin_memory=True)]
assert seen == [4, 4]
""",
    ),
    _(
        "pin_memory",
        'assert torch.ones(2).pin_memory().is_pinned()\nassert torch.ones(2).pin_memory("cuda").is_pinned("cuda")',
    ),
    _(
        "cudnn flags",
        """
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.enabled = True
with torch.backends.cudnn.flags(enabled=False):
    pass
torch.backends.cudnn.is_available(), torch.backends.cudnn.version()
torch.backends.cudnn.benchmark = False
torch.backends.cudnn.deterministic = False
""",
    ),
    _(
        "tf32 flags",
        """
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.set_float32_matmul_precision("high")
torch.set_float32_matmul_precision("highest")
""",
    ),
    _(
        "sdpa_kernel flash",
        """
from torch.nn.attention import SDPBackend, sdpa_kernel
q = torch.rand(1, 1, 4, 8, device="cuda")
with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
    F.scaled_dot_product_attention(q, q, q)
with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    F.scaled_dot_product_attention(q, q, q)
""",
    ),
    _(
        "sdp_kernel",
        """
q = torch.rand(1, 1, 4, 8, device="cuda")
with torch.backends.cuda.sdp_kernel(enable_flash=True, enable_math=False, enable_mem_efficient=False):
    F.scaled_dot_product_attention(q, q, q)
torch.backends.cuda.enable_flash_sdp(True)
""",
    ),
    _(
        "profile CUDA activity",
        """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    torch.ones(2, device="cuda").sum()
assert p.key_averages().table(sort_by="cuda_time_total", row_limit=3)
""",
    ),
    _(
        "autograd profiler use_cuda",
        """
with torch.autograd.profiler.profile(use_cuda=True) as p:
    torch.ones(2, device="cuda").sum()
assert p.key_averages().table(sort_by="cuda_time_total")
""",
    ),
    _(
        "emit_nvtx",
        "with torch.autograd.profiler.emit_nvtx():\n    torch.ones(2, device='cuda').sum()",
    ),
    _(
        "AdamW fused",
        """
m = nn.Linear(2, 2).cuda()
o = torch.optim.AdamW(m.parameters(), fused=True)
m(torch.ones(1, 2).cuda()).sum().backward(); o.step()
""",
    ),
    _(
        "AdamW capturable",
        "torch.optim.AdamW(nn.Linear(2, 2).cuda().parameters(), capturable=True)",
        expect="HPU|ok",
    ),
    _(
        "checkpoint",
        """
from torch.utils.checkpoint import checkpoint
m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).cuda()
x = torch.ones(1, 2, device="cuda", requires_grad=True)
with torch.autocast("cuda"):
    y = checkpoint(m, x, use_reentrant=False)
y.sum().backward()
y = checkpoint(m, x, use_reentrant=True, preserve_rng_state=True)
y.sum().backward()
""",
    ),
]

PACKAGES = [
    _(
        "apex amp",
        """
from apex import amp
m = nn.Linear(2, 2).cuda(); o = torch.optim.SGD(m.parameters(), 0.1)
m, o = amp.initialize(m, o, opt_level="O1")
loss = m(torch.ones(1, 2).cuda()).sum()
assert loss.dtype == torch.float32
with amp.scale_loss(loss, o) as scaled:
    scaled.backward()
nn.utils.clip_grad_norm_(amp.master_params(o), 1.0)
o.step()
""",
        group="packages",
    ),
    _(
        "apex optimizers and norms",
        """
from apex.optimizers import FusedAdam, FusedSGD
from apex.normalization import FusedLayerNorm
import apex.parallel
m = nn.Sequential(nn.Linear(2, 2), FusedLayerNorm(2)).cuda()
for o in (FusedAdam(m.parameters(), lr=0.1), FusedAdam(m.parameters(), adam_w_mode=False), FusedSGD(m.parameters(), lr=0.1)):
    o.zero_grad(); m(torch.ones(1, 2).cuda())[0, 0].backward(); o.step()
assert isinstance(apex.parallel.convert_syncbn_model(nn.BatchNorm1d(2)), nn.SyncBatchNorm)
""",
        group="packages",
    ),
    _(
        "apex optional",
        "try:\n    from apex.contrib.unheard import Thing\nexcept ImportError:\n    Thing = None\nassert Thing is None",
        group="packages",
    ),
    _(
        "pynvml",
        """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
assert pynvml.nvmlDeviceGetMemoryInfo(handle).total > 0 and pynvml.nvmlDeviceGetCount() == 1
try:
    pynvml.nvmlDeviceGetUtilizationRates(handle)
except pynvml.NVMLError:
    pass
""",
        group="packages",
    ),
    _(
        "blocked package falls back",
        """
import sys
(tmp / "flash_attn").mkdir(); (tmp / "flash_attn" / "__init__.py").write_text("raise SystemError('CUDA driver')")
sys.path.insert(0, str(tmp))
try:
    from flash_attn import flash_attn_func
except ImportError as error:
    assert "HPU703" in str(error) and "scaled_dot_product_attention" in str(error)
else:
    raise AssertionError
""",
        group="packages",
    ),
    _(
        "absent package stays absent",
        """
import importlib.util
assert importlib.util.find_spec("xformers") is None
try:
    import xformers
except ModuleNotFoundError as error:
    assert error.name == "xformers"
""",
        group="packages",
    ),
    _(
        "CUDA extension",
        'from torch.utils.cpp_extension import load\nload(name="k", sources=["a.cpp", "k.cu"])',
        expect="HPU711",
        group="packages",
    ),
    _(
        "CUDA_VISIBLE_DEVICES hides",
        """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
finally:
    del os.environ["CUDA_VISIBLE_DEVICES"]
""",
        group="packages",
    ),
    _(
        "half and double are said",
        """
import hpushim
m = nn.Linear(2, 2).cuda().half()
torch.ones(1).cuda().double()
said = {row["code"] for row in hpushim.status()["notes"]}
assert {"HPU208", "HPU117"} <= said and m.weight.dtype == torch.half
""",
        group="packages",
    ),
    _(
        "device tensor to another process",
        """
from multiprocessing.reduction import ForkingPickler
import torch.multiprocessing
m = nn.Linear(1, 1).share_memory()
m.cuda().share_memory()
ForkingPickler.dumps(torch.ones(1))
ForkingPickler.dumps(m.weight.data)
""",
        expect="HPU418",
        group="packages",
    ),
    _(
        "NCCL variables are named",
        """
import os, hpushim
os.environ["NCCL_DEBUG"] = "INFO"
os.environ["TORCHELASTIC_RUN_ID"], os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "none", "1"  # by torchrun
dist.init_process_group("nccl", init_method=f"file://{tmp}/store", rank=0, world_size=1)
dist.destroy_process_group()
assert any("NCCL_DEBUG" in row["text"] for row in hpushim.status()["notes"])
assert not any("ASYNC_ERROR" in row["text"] for row in hpushim.status()["notes"])
""",
        group="packages",
    ),
]

COMPILE = [
    _(
        "compile default",
        """
m = torch.compile(nn.Linear(2, 2).cuda())
assert m(torch.ones(1, 2, device="cuda")).is_cuda
""",
        group="compile",
    ),
    _(
        "compile mode",
        """
m = torch.compile(nn.Linear(2, 2).cuda(), mode="reduce-overhead")
assert m(torch.ones(1, 2, device="cuda")).is_cuda
""",
        group="compile",
    ),
    _(
        "compiled factory fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x + torch.ones(2, device="cuda")
assert f(torch.ones(2, device="cuda")).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "compiled device and to fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x.to(torch.device("cuda")) * 2
assert f(torch.ones(2)).is_cuda
""",
        group="compile",
    ),
    _(
        "compiled to string fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x.to("cuda") * 2
assert f(torch.ones(2)).is_cuda
""",
        group="compile",
    ),
    _(
        "compiled cuda() fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x.cuda() * 2
assert f(torch.ones(2)).is_cuda
""",
        group="compile",
    ),
    _(
        "compiled is_cuda fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x * 2 if x.is_cuda else x
assert f(torch.ones(2, device="cuda")).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "compiled autocast fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x):
    with torch.autocast("cuda", dtype=torch.float16):
        return x @ x
assert f(torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
""",
        group="compile",
    ),
    _(
        "compiled is_available fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x * 2 if torch.cuda.is_available() else x
assert f(torch.ones(2, device="cuda")).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "compiled tensor() fullgraph",
        """
@torch.compile(fullgraph=True)
def f(x): return x + torch.tensor(1.0, device="cuda")
assert f(torch.ones(2, device="cuda")).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "compile other backend",
        """
m = torch.compile(nn.Linear(2, 2).cuda(), backend="eager")
assert m(torch.ones(1, 2, device="cuda")).is_cuda
""",
        group="compile",
    ),
    _(
        "jit.script device",
        """
def f(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.device("cuda"))
import linecache
src = "import torch\\ndef f(x: torch.Tensor) -> torch.Tensor:\\n    return torch.zeros(2, device=torch.device('cuda:0')) + x\\n"
(tmp / "scripted_mod.py").write_text(src)
import sys; sys.path.insert(0, str(tmp))
import scripted_mod
assert torch.jit.script(scripted_mod.f)(torch.ones(2, device="cuda")).sum().item() == 2
""",
        group="compile",
    ),
    _(
        "jit.script annotation and tensor()",
        """
(tmp / "scripted_two.py").write_text(
    "import torch\\ndef f(x: torch.Tensor, d: torch.device) -> torch.Tensor:\\n    return torch.tensor([1.0]).to(d) + x\\n")
import sys; sys.path.insert(0, str(tmp))
import scripted_two
assert torch.jit.script(scripted_two.f)(torch.ones(1, device="cuda"), torch.device("cuda")).sum().item() == 2
""",
        group="compile",
    ),
    _(
        "fx trace",
        """
class M(nn.Module):
    def forward(self, x): return x.cuda() + torch.ones(2, device="cuda")
g = torch.fx.symbolic_trace(M())
assert g(torch.ones(2)).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "fx factory of a traced size",
        """
class M(nn.Module):
    def forward(self, x): return x + torch.zeros(x.size(0), device="cuda") + torch.tensor(1.0, device="cuda")
g = torch.fx.symbolic_trace(M())
assert g(torch.ones(2, device="cuda")).sum().item() == 4
""",
        group="compile",
    ),
    _(
        "jit.script factories",
        """
(tmp / "scripted_three.py").write_text(
    "import torch\\ndef f(n: int) -> torch.Tensor:\\n    return torch.zeros(n, device='cuda') + torch.tensor([1.0], device='cuda:0')\\n")
import sys; sys.path.insert(0, str(tmp))
import scripted_three
assert torch.jit.script(scripted_three.f)(3).sum().item() == 3
""",
        group="compile",
    ),
    _(
        "pickle of a factory",
        "import pickle\nassert pickle.loads(pickle.dumps(torch.zeros))(1).sum().item() == 0",
        group="compile",
    ),
    _(
        "custom_op with device",
        """
@torch.library.custom_op("hpushim_test::make", mutates_args=())
def make(n: int, device: torch.device) -> torch.Tensor:
    return torch.ones(n, device=device)
assert make(3, torch.device("cuda")).device.type == "hpu"
""",
        group="compile",
    ),
]

EARLY = [
    _(
        "early autocast",
        """
with autocast():
    assert (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
""",
        early="from torch.cuda.amp import autocast",
    ),
    _(
        "early GradScaler",
        "assert GradScaler().get_scale() == 1.0",
        early="from torch.cuda.amp import GradScaler",
    ),
    _(
        "early load",
        'torch.save(torch.ones(1), tmp / "a.pt")\nassert load(tmp / "a.pt", map_location="cuda").is_cuda',
        early="from torch import load",
    ),
    _(
        "early device",
        'assert torch.zeros(1, device=device("cuda")).is_cuda',
        early="from torch import device",
    ),
    _(
        "early device compare",
        'assert device("cuda:0") == torch.ones(1).cuda().device',
        early="from torch import device",
    ),
    _(
        "early device object",
        "assert torch.ones(1).to(DEVICE).is_cuda",
        early='import torch\nDEVICE = torch.device("cuda")',
    ),
    _("early zeros", 'assert zeros(1, device="cuda").is_cuda', early="from torch import zeros"),
    _(
        "early tensor indexed",
        'assert tensor([1.0], device="cuda:0").is_cuda',
        early="from torch import tensor",
    ),
    _("early is_available", "assert is_available()", early="from torch.cuda import is_available"),
    _("early synchronize", "synchronize()", early="from torch.cuda import synchronize"),
    _("early Stream", "s = Stream()\ns.synchronize()", early="from torch.cuda import Stream"),
    _(
        "early Generator",
        'assert Generator("cuda").device.type == "hpu"',
        early="from torch import Generator",
    ),
    _(
        "early init_process_group",
        """
init_process_group("nccl", init_method=f"file://{tmp}/store", rank=0, world_size=1)
m = DDP(nn.Linear(2, 2).cuda(), device_ids=[0])
m(torch.ones(1, 2).cuda()).sum().backward()
dist.destroy_process_group()
""",
        early="from torch.distributed import init_process_group\nfrom torch.nn.parallel import DistributedDataParallel as DDP",
    ),
]

IDIOMS = [
    *FACTORIES, *MOVES, *DEVICES, *MODULES, *CUDA, *AMP, *DISTRIBUTED, *CHECKPOINTS, *DATA, *PACKAGES, *COMPILE, *EARLY,
]  # fmt: skip
