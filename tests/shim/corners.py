"""The rarer CUDA idioms: memory counters, random states, streams, profiling, typed tensors, graphs, compiled code.

Same form as ``idioms.py``; run by ``idiom_runner.py``, checked by ``test_corners.py``.
"""

from __future__ import annotations

from idioms import Idiom


def _(name: str, code: str, *, expect: str = "ok", group: str) -> Idiom:
    return Idiom(name, code, "", expect, group)


MEMORY = [
    _(name, code, expect=expect, group="memory")
    for name, code, expect in (
        (
            "stats keys",
            """
x = torch.ones(1000, device="cuda")
s = torch.cuda.memory_stats()
assert s["allocated_bytes.all.current"] >= 4000 <= s["allocated_bytes.all.peak"]
assert s["num_alloc_retries"] == s["num_ooms"] == 0
assert s["inactive_split_bytes.all.current"] == 0 and s["segment.all.peak"] == 0
assert s.get("reserved_bytes.all.current") >= 4000 and list(s)
assert torch.cuda.memory_stats(0)["active_bytes.all.current"] == torch.cuda.memory_stats("cuda:0")["active_bytes.all.current"]
""",
            "ok",
        ),
        (
            "stats as nested dict",
            's = torch.cuda.memory_stats_as_nested_dict()\nassert s["allocated_bytes"]["all"]["current"] >= 0',
            "ok",
        ),
        (
            "peak follows reset",
            """
x = torch.ones(4096, device="cuda")
del x
torch.cuda.reset_peak_memory_stats(device="cuda:0")
low = torch.cuda.max_memory_allocated(torch.device("cuda"))
y = torch.ones(1 << 20, device="cuda")
assert torch.cuda.max_memory_allocated() >= low + (1 << 22)
torch.cuda.reset_max_memory_allocated(); torch.cuda.reset_max_memory_cached(); torch.cuda.reset_accumulated_memory_stats()
""",
            "ok",
        ),
        (
            "reserved is at least allocated",
            'x = torch.ones(10, device="cuda")\nassert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated() > 0\nassert torch.cuda.max_memory_reserved(0) >= torch.cuda.memory_reserved("cuda")',
            "ok",
        ),
        (
            "cached spellings",
            "assert torch.cuda.memory_cached() >= 0 <= torch.cuda.max_memory_cached()",
            "ok",
        ),
        (
            "summary",
            'assert "GiB" in torch.cuda.memory_summary(device=None, abbreviated=True)\nassert torch.cuda.memory_summary(0, True)',
            "ok",
        ),
        (
            "mem_get_info of a device",
            'assert torch.cuda.mem_get_info("cuda:0") == torch.cuda.mem_get_info(0)',
            "ok",
        ),
        (
            "fraction",
            "torch.cuda.set_per_process_memory_fraction(0.5, 0)\nassert torch.cuda.memory.get_per_process_memory_fraction() == 1.0",
            "ok",
        ),
        ("allocator backend", 'assert torch.cuda.get_allocator_backend() == "native"', "ok"),
        ("snapshot", "torch.cuda.memory_snapshot()", "HPU406"),
        ("record history", "torch.cuda.memory._record_memory_history(max_entries=10)", "HPU406"),
        ("dump snapshot", "torch.cuda.memory._dump_snapshot(str(tmp / 'a.pickle'))", "HPU406"),
        ("raw memory", "torch.cuda.caching_allocator_alloc(10)", "HPU418"),
        (
            "pluggable allocator",
            "torch.cuda.memory.CUDAPluggableAllocator('a.so', 'a', 'b')",
            "HPU",
        ),
        ("mem pool", "torch.cuda.MemPool()", "HPU|RuntimeError"),
        ("list processes", "torch.cuda.list_gpu_processes()", "HPU|ok"),
        ("utilization", "torch.cuda.utilization()", "HPU"),
        ("temperature", "torch.cuda.temperature()", "HPU"),
        ("power", "torch.cuda.power_draw()", "HPU"),
        ("host memory stats", "torch.cuda.host_memory_stats()", "HPU|ok"),
        ("change allocator", "torch.cuda.memory.change_current_allocator(None)", "HPU"),
        (
            "empty_cache in finally",
            "try:\n    pass\nfinally:\n    torch.cuda.empty_cache(); torch.cuda.ipc_collect()",
            "ok",
        ),
        (
            "out of memory is still an exception to catch",
            "assert issubclass(torch.cuda.OutOfMemoryError, RuntimeError)\ntry:\n    pass\nexcept torch.cuda.OutOfMemoryError:\n    pass",
            "ok",
        ),
    )
]

RANDOM = [
    _(name, code, expect=expect, group="random")
    for name, code, expect in (
        (
            "seed and initial_seed",
            "torch.cuda.manual_seed(17)\nassert torch.cuda.initial_seed() == 17\ntorch.cuda.seed(); torch.cuda.seed_all()",
            "ok",
        ),
        (
            "states of several devices",
            """
states = torch.cuda.get_rng_state_all()
a = torch.rand(3, device="cuda")
torch.cuda.set_rng_state_all([*states, states[0]])
assert torch.equal(a, torch.rand(3, device="cuda"))
""",
            "ok",
        ),
        (
            "state by device",
            """
for where in ("cuda", "cuda:3", 2, torch.device("cuda:0")):
    state = torch.cuda.get_rng_state(where)
    a = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state, device=where)
    assert torch.equal(a, torch.rand(2, device="cuda"))
""",
            "ok",
        ),
        (
            "state of a CUDA run is left aside",
            "before = torch.cuda.get_rng_state()\ntorch.cuda.set_rng_state(torch.zeros(16, dtype=torch.uint8))\nassert torch.equal(before, torch.cuda.get_rng_state())",
            "ok",
        ),
        (
            "state moved to the device and back",
            "s = torch.cuda.get_rng_state().cuda()\ntorch.cuda.set_rng_state(s)",
            "ok",
        ),
        (
            "default_generators",
            "assert torch.cuda.default_generators[0].device.type == 'hpu'",
            "ok",
        ),
        (
            "fork_rng keeps the device's state",
            """
torch.manual_seed(0); a = torch.rand(2, device="cuda")
torch.manual_seed(0)
with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
    torch.rand(5, device="cuda")
assert torch.equal(a, torch.rand(2, device="cuda"))
with torch.random.fork_rng(devices=[torch.cuda.current_device()], device_type="cuda"):
    torch.rand(1, device="cuda")
""",
            "ok",
        ),
        (
            "seed wrapped for 32 bits",
            "torch.cuda.manual_seed_all(2 ** 32 - 1)\ntorch.cuda.manual_seed_all(np.int64(3))",
            "ok",
        ),
        (
            "generator states",
            "g = torch.Generator('cuda:1')\ns = g.get_state(); a = torch.rand(2, generator=g, device='cuda'); g.set_state(s)\nassert torch.equal(a, torch.rand(2, generator=g, device='cuda'))",
            "ok",
        ),
        (
            "randperm with a generator",
            "g = torch.Generator(device='cuda').manual_seed(0)\nassert torch.randperm(4, generator=g, device='cuda').device.type == 'hpu'",
            "ok",
        ),
    )
]

STREAMS = [
    _(name, code, expect=expect, group="streams")
    for name, code, expect in (
        (
            "torch.Stream(device='cuda')",
            "s = torch.Stream(device='cuda')\nassert s.device.type == 'hpu'\ns.synchronize(); s.query()",
            "ok",
        ),
        (
            "torch.Stream positional",
            "assert torch.Stream('cuda:1').device.type == 'hpu'\nassert torch.Stream(torch.device('cuda')).device.type == 'hpu'",
            "ok",
        ),
        (
            "torch.Event(device='cuda')",
            "e = torch.Event(device='cuda')\ne.record(); e.synchronize()\nassert e.device.type == 'hpu'",
            "ok",
        ),
        (
            "torch.Event('cuda', enable_timing)",
            "a, b = torch.Event('cuda', enable_timing=True), torch.Event('cuda', enable_timing=True)\na.record(); b.record(); b.synchronize(); a.elapsed_time(b)",
            "ok",
        ),
        (
            "Stream arguments",
            "for s in (torch.cuda.Stream(), torch.cuda.Stream(0), torch.cuda.Stream('cuda'), torch.cuda.Stream(device=torch.device('cuda', 1), priority=-1)):\n    assert s.query() in (True, False) and s.device.type == 'hpu'",
            "ok",
        ),
        (
            "isinstance",
            "assert isinstance(torch.cuda.Stream(), torch.Stream)\nassert isinstance(torch.cuda.Event(), torch.Event)\nassert not isinstance(3, torch.cuda.Stream)",
            "ok",
        ),
        (
            "wait for events",
            """
s = torch.cuda.Stream()
e = torch.cuda.Event()
with torch.cuda.stream(s):
    x = torch.ones(2, device="cuda") * 2
    e.record(s)
torch.cuda.current_stream().wait_event(e)
e2 = s.record_event()
s.wait_event(e2); s.wait_stream(torch.cuda.default_stream()); e2.wait(s); e2.wait()
assert x.sum().item() == 4
""",
            "ok",
        ),
        (
            "record_stream of a view",
            "x = torch.ones(4, device='cuda')\nx[:2].record_stream(torch.cuda.Stream())",
            "ok",
        ),
        (
            "record_stream on the host",
            "torch.ones(1).record_stream(torch.cuda.current_stream())",
            "ok|NotImplementedError|RuntimeError",
        ),
        (
            "with stream(None)",
            "with torch.cuda.stream(None):\n    torch.ones(1, device='cuda')",
            "ok",
        ),
        (
            "StreamContext",
            "with torch.cuda.StreamContext(torch.cuda.Stream()) as c:\n    torch.ones(1, device='cuda')",
            "ok",
        ),
        (
            "set_stream",
            "s = torch.cuda.current_stream()\ntorch.cuda.set_stream(s)\nassert torch.cuda.current_stream(0) == torch.cuda.current_stream('cuda')",
            "ok",
        ),
        (
            "stream as key",
            "d = {torch.cuda.current_stream(): 1}\nassert d[torch.cuda.current_stream()] == 1",
            "ok",
        ),
        ("raw pointer", "torch.cuda.current_stream().cuda_stream", "HPU|AttributeError"),
        ("external stream", "torch.cuda.ExternalStream(1)", "HPU412"),
        (
            "get_stream_from_external",
            "torch.cuda.get_stream_from_external(1)",
            "HPU|AttributeError",
        ),
        ("interprocess event", "torch.cuda.Event(interprocess=True)", "HPU413"),
        (
            "blocking event",
            "e = torch.cuda.Event(enable_timing=True, blocking=True)\ne.record(); e.synchronize()",
            "ok",
        ),
        (
            "ipc handle",
            "torch.cuda.Event().ipc_handle()",
            "HPU|AttributeError|RuntimeError|NotImplementedError",
        ),
        (
            "subclass of Stream",
            "class Side(torch.cuda.Stream):\n    pass\ns = Side()\nwith torch.cuda.stream(s):\n    torch.ones(1, device='cuda')\ns.synchronize()",
            "ok",
        ),
        (
            "timing of a loop",
            "es = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for i in range(3)]\nfor a, b in es:\n    a.record(); torch.ones(1, device='cuda').add_(1); b.record()\ntorch.cuda.synchronize()\nassert sum(a.elapsed_time(b) for a, b in es) >= 0",
            "ok",
        ),
        ("sleep", "torch.cuda._sleep(100)", "HPU|ok|AttributeError"),
    )
]

GRAPHS = [
    _(name, code, expect=expect, group="graphs")
    for name, code, expect in (
        ("CUDAGraph", "torch.cuda.CUDAGraph()", "HPU416"),
        ("graph pool", "torch.cuda.graph_pool_handle()", "HPU416"),
        ("graph context", "with torch.cuda.graph(None):\n    pass", "HPU416"),
        ("graphs module", "torch.cuda.graphs.CUDAGraph()", "HPU416"),
        (
            "is_current_stream_capturing",
            "assert torch.cuda.is_current_stream_capturing() is False",
            "ok",
        ),
        (
            "make_graphed_callables",
            "m = nn.Linear(2, 2).cuda()\nassert torch.cuda.make_graphed_callables(m, (torch.ones(1, 2).cuda(),)) is m\na, b = torch.cuda.make_graphed_callables((m, m), ((torch.ones(1, 2).cuda(),), (torch.ones(1, 2).cuda(),)), num_warmup_iters=3)\nassert a is b is m",
            "ok",
        ),
        (
            "jiterator",
            "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T x) { return x; }')(torch.ones(1).cuda())",
            "HPU",
        ),
        ("tunable", "torch.cuda.tunable.enable(True)\ntorch.cuda.tunable.is_enabled()", "ok|HPU"),
        ("nccl", "torch.cuda.nccl.all_reduce([torch.ones(1).cuda()])", "HPU"),
        (
            "nccl available",
            "assert torch.cuda.nccl.is_available([torch.ones(1).cuda()]) is False",
            "ok|HPU",
        ),
        (
            "comm broadcast",
            "import torch.cuda.comm\ntorch.cuda.comm.broadcast(torch.ones(1).cuda(), [0, 1])",
            "HPU",
        ),
        (
            "comm scatter",
            "from torch.cuda import comm\ncomm.scatter(torch.ones(2).cuda(), [0, 1])",
            "HPU",
        ),
        ("cudart", "torch.cuda.cudart().cudaMemGetInfo(0)", "HPU417"),
        (
            "cuda.profiler",
            "torch.cuda.profiler.start(); torch.cuda.profiler.stop()\nwith torch.cuda.profiler.profile():\n    pass",
            "ok",
        ),
        (
            "gds",
            "torch.cuda.gds.gds_register_buffer(torch.ones(1).untyped_storage())",
            "HPU|RuntimeError",
        ),
        (
            "amp.common",
            "from torch.cuda.amp.common import amp_definitely_not_available\nassert amp_definitely_not_available() is False",
            "ok",
        ),
        (
            "lazy internals",
            "assert torch.cuda._is_in_bad_fork() is False\ntorch.cuda._lazy_init(); torch.cuda._lazy_call(lambda: 1 / 0)",
            "ok",
        ),
        ("device_of host tensor", "with torch.cuda.device_of(torch.ones(1)):\n    pass", "ok"),
        (
            "device as decorator argument",
            "d = torch.cuda.device('cuda:2')\nwith d:\n    with d:\n        assert torch.ones(1).cuda().is_cuda",
            "ok",
        ),
        ("can_device_access_peer", "assert torch.cuda.can_device_access_peer(0, 0) is False", "ok"),
        (
            "sync debug mode",
            "torch.cuda.set_sync_debug_mode('warn')\ntorch.cuda.get_sync_debug_mode()",
            "ok|HPU",
        ),
        ("unknown name", "torch.cuda.not_a_name", "AttributeError"),
    )
]

PROFILING = [
    _(name, code, expect=expect, group="profiling")
    for name, code, expect in (
        (
            "key averages, attributes",
            """
from torch.profiler import ProfilerActivity, profile, record_function
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, profile_memory=True) as p:
    with record_function("step"):
        torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
for key in ("cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "cpu_time_total", "self_cuda_memory_usage", "cuda_time"):
    assert p.key_averages().table(sort_by=key, row_limit=2), key
assert p.key_averages(group_by_input_shape=True).table(sort_by="cuda_time_total")
e = p.key_averages()[0]
assert e.cuda_time >= 0 and e.device_time_total >= 0
assert sum(e.cuda_time_total + e.self_cuda_time_total + e.self_cuda_memory_usage for e in p.events()) is not None
""",
            "ok",
        ),
        (
            "schedule and trace handler",
            """
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
seen = []
with profile(activities=(ProfilerActivity.CPU, ProfilerActivity.CUDA), schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=lambda p: seen.append(p.key_averages().table(sort_by="self_cuda_time_total"))) as p:
    for _ in range(3):
        torch.ones(2, device="cuda").sum(); p.step()
assert len(seen) == 1
""",
            "ok",
        ),
        (
            "export chrome trace",
            "from torch.profiler import ProfilerActivity, profile\nwith profile(activities=[ProfilerActivity.CUDA]) as p:\n    torch.ones(2, device='cuda').sum()\np.export_chrome_trace(str(tmp / 'a.json'))\nassert (tmp / 'a.json').stat().st_size",
            "ok",
        ),
        (
            "profile without activities",
            "from torch.profiler import profile\nwith profile() as p:\n    torch.ones(2, device='cuda').sum()\nassert p.key_averages().table()",
            "ok",
        ),
        (
            "positional activities",
            "from torch.profiler import ProfilerActivity, profile\nwith profile(activities={ProfilerActivity.CUDA, ProfilerActivity.CPU}):\n    pass",
            "ok",
        ),
        (
            "_KinetoProfile",
            "from torch.profiler import ProfilerActivity\nfrom torch.profiler.profiler import _KinetoProfile\n_KinetoProfile(activities=[ProfilerActivity.CUDA])",
            "ok",
        ),
        (
            "supported_activities",
            "from torch.profiler import supported_activities\nassert supported_activities()",
            "ok",
        ),
        (
            "use_cuda",
            "with torch.autograd.profiler.profile(use_cuda=True) as p:\n    torch.ones(2, device='cuda').sum()\nassert p.key_averages().table(sort_by='cuda_time_total')\np.total_average().cuda_time",
            "ok",
        ),
        (
            "use_device cuda",
            "with torch.autograd.profiler.profile(use_device='cuda') as p:\n    torch.ones(2, device='cuda').sum()\nassert p.key_averages()",
            "ok",
        ),
        (
            "profile positional",
            "with torch.autograd.profiler.profile(True) as p:\n    torch.ones(2, device='cuda').sum()\nassert p.key_averages().table(sort_by='self_cuda_time_total')",
            "ok",
        ),
        (
            "emit_nvtx",
            "with torch.autograd.profiler.emit_nvtx(record_shapes=True):\n    torch.ones(1, device='cuda').sum()\nwith torch.autograd.profiler.emit_nvtx(enabled=False):\n    pass",
            "ok",
        ),
        (
            "nvtx",
            "h = torch.cuda.nvtx.range_start('a')\ntorch.cuda.nvtx.range_end(h)\n@torch.cuda.nvtx.range('step')\ndef f(): return 1\nassert f() == 1\nwith torch.cuda.nvtx.range('epoch {}', 3):\n    pass\nwith torch.cuda.nvtx.range('100% {braces}') if False else torch.cuda.nvtx.range('plain'):\n    pass",
            "ok",
        ),
        ("nvtx braces", "with torch.cuda.nvtx.range('json {\"a\": 1}'):\n    pass", "ok|KeyError"),
        (
            "nvtx marks nested",
            "assert torch.cuda.nvtx.range_push('a') == 0\nassert isinstance(torch.cuda.nvtx.range_pop(), int)",
            "ok",
        ),
        ("itt", "torch.profiler.itt.is_available()", "ok"),
    )
]

TYPED = [
    _(name, code, expect=expect, group="typed")
    for name, code, expect in (
        (
            "all typed tensors",
            """
for name, dtype in dict(Float="float32", Double="float64", Half="float16", BFloat16="bfloat16", Long="int64", Int="int32", Short="int16", Char="int8", Byte="uint8", Bool="bool").items():
    kind = getattr(torch.cuda, f"{name}Tensor")
    t = kind(2, 2)
    assert t.shape == (2, 2) and t.dtype == getattr(torch, dtype) and t.device.type == "hpu", name
    assert isinstance(t, kind) and t.type() == f"torch.cuda.{name}Tensor"
""",
            "ok",
        ),
        (
            "from sequences and arrays",
            "assert torch.cuda.FloatTensor([[1, 2]]).tolist() == [[1, 2]]\nassert torch.cuda.FloatTensor(np.ones((2, 2), 'f4')).sum().item() == 4\nassert torch.cuda.FloatTensor().numel() == 0\nassert torch.cuda.FloatTensor(torch.Size([3])).shape == (3,)",
            "ok",
        ),
        (
            "normal_ chains",
            "z = torch.cuda.FloatTensor(2, 3).normal_()\nassert z.is_cuda\nz = torch.cuda.FloatTensor(4).fill_(1.0)\nassert z.sum().item() == 4",
            "ok",
        ),
        (
            "choice by flag",
            "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\nassert Tensor(np.ones(2, 'f4')).is_cuda\nfrom torch.autograd import Variable\nassert Variable(Tensor(2, 1).fill_(1.0), requires_grad=False).is_cuda",
            "ok",
        ),
        (
            "type of host tensor stays",
            "assert torch.ones(1).type() == 'torch.FloatTensor'\nassert torch.ones(1).cuda().type(torch.float64).type() == 'torch.cuda.DoubleTensor'\nassert torch.ones(1).cuda().type('torch.FloatTensor').device.type == 'cpu'",
            "ok|HPU",
        ),
        (
            "type_as",
            "assert torch.ones(1).type_as(torch.cuda.HalfTensor(1)).dtype == torch.half",
            "ok",
        ),
        (
            "tensor.new",
            "x = torch.ones(1, device='cuda')\nassert x.new(2, 3).is_cuda and x.new([1.0]).is_cuda and x.new_tensor([1]).is_cuda",
            "ok",
        ),
        (
            "module.type",
            "m = nn.Linear(1, 1).type(torch.cuda.HalfTensor)\nassert m.weight.is_cuda and m.weight.dtype == torch.half\nassert nn.Linear(1, 1).type(torch.float64).weight.dtype == torch.float64\nassert nn.Linear(1, 1).type(dst_type='torch.cuda.FloatTensor').weight.is_cuda",
            "ok",
        ),
        (
            "storages",
            "s = torch.ones(3).cuda().untyped_storage()\nassert s.is_cuda and s.cpu().device.type == 'cpu'\nassert torch.ones(2).cuda().storage().is_cuda",
            "ok",
        ),
        ("legacy cuda storages", "torch.cuda.FloatStorage(3)", "ok|HPU|RuntimeError|TypeError"),
        (
            "tensor type in a dict",
            "sizes = {torch.cuda.FloatTensor: 4, torch.FloatTensor: 8}\nassert sizes[torch.cuda.FloatTensor] == 4",
            "ok",
        ),
        (
            "all_gather trick",
            "x = torch.ByteTensor([1, 2]).to('cuda')\nassert isinstance(x, torch.cuda.ByteTensor)\ny = torch.cuda.IntTensor([3])\nassert y.item() == 3",
            "ok",
        ),
        (
            "dtype of the type",
            "assert torch.cuda.FloatTensor.dtype == torch.float32 and torch.cuda.FloatTensor.is_cuda",
            "ok",
        ),
        (
            "is_tensor and isinstance Tensor",
            "t = torch.cuda.FloatTensor(1)\nassert torch.is_tensor(t) and isinstance(t, torch.Tensor)",
            "ok",
        ),
        ("sparse typed", "torch.cuda.sparse.FloatTensor", "ok|AttributeError"),
    )
]

BACKENDS = [
    _(name, code, expect=expect, group="backends")
    for name, code, expect in (
        (
            "cuda flags",
            """
b = torch.backends.cuda
assert b.is_built() is False
b.matmul.allow_tf32 = True
b.matmul.allow_fp16_reduced_precision_reduction = False
b.matmul.allow_bf16_reduced_precision_reduction = True
b.enable_flash_sdp(True); b.enable_mem_efficient_sdp(True); b.enable_math_sdp(True)
assert b.flash_sdp_enabled() and b.mem_efficient_sdp_enabled() and b.math_sdp_enabled()
""",
            "ok",
        ),
        (
            "cudnn sdp",
            "torch.backends.cuda.enable_cudnn_sdp(False)\ntorch.backends.cuda.cudnn_sdp_enabled()",
            "ok",
        ),
        (
            "cufft cache",
            "torch.backends.cuda.cufft_plan_cache.max_size = 10",
            "ok|HPU|RuntimeError|AssertionError",
        ),
        (
            "preferred linalg",
            "torch.backends.cuda.preferred_linalg_library('default')",
            "ok|HPU|RuntimeError",
        ),
        (
            "is_flash_attention_available",
            "torch.backends.cuda.is_flash_attention_available()",
            "ok",
        ),
        (
            "cudnn",
            "c = torch.backends.cudnn\nc.benchmark = True; c.deterministic = True; c.allow_tf32 = True; c.enabled = True; c.benchmark_limit\nassert c.is_available() in (True, False)\nc.version()\nwith c.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):\n    pass\nc.is_acceptable(torch.ones(1).cuda())",
            "ok",
        ),
        (
            "fp32_precision",
            "getattr(torch.backends.cuda.matmul, 'fp32_precision', None)\ntorch.set_float32_matmul_precision('medium')\ntorch.get_float32_matmul_precision()",
            "ok",
        ),
        (
            "deterministic",
            "torch.use_deterministic_algorithms(True, warn_only=True)\ntorch.use_deterministic_algorithms(False)",
            "ok",
        ),
        (
            "sdpa backends",
            """
from torch.nn.attention import SDPBackend, sdpa_kernel
q = torch.rand(1, 2, 4, 8, device="cuda", dtype=torch.bfloat16)
for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION):
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, q, q, is_causal=True)
with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
    F.scaled_dot_product_attention(q, q, q)
""",
            "ok",
        ),
        (
            "sdp_kernel flags",
            "q = torch.rand(1, 1, 4, 8, device='cuda')\nwith torch.backends.cuda.sdp_kernel(enable_flash=True, enable_math=False, enable_mem_efficient=True):\n    F.scaled_dot_product_attention(q, q, q)",
            "ok",
        ),
        (
            "dtype of autocast in sdpa",
            "with torch.autocast('cuda'):\n    q = torch.rand(1, 1, 4, 8, device='cuda')\n    assert F.scaled_dot_product_attention(q, q, q).is_cuda",
            "ok",
        ),
    )
]

OPTIMIZERS = [
    _(name, code, expect=expect, group="compile-corners")
    for name, code, expect in (
        (
            "fused optimizers",
            """
for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad):
    m = nn.Linear(2, 2).cuda()
    o = kind(m.parameters(), lr=0.1, fused=True)
    m(torch.ones(1, 2).cuda()).sum().backward(); o.step()
    assert not o.param_groups[0]["fused"]
""",
            "ok",
        ),
        (
            "fused with groups",
            """
m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).cuda()
o = torch.optim.AdamW([{"params": m[0].parameters(), "weight_decay": 0.1}, {"params": m[1].parameters()}], lr=0.1, fused=True)
assert sum(len(g["params"]) for g in o.param_groups) == 4
o = torch.optim.AdamW(m.named_parameters(), fused=True)
""",
            "ok",
        ),
        (
            "fused probe of nanoGPT",
            "import inspect\nassert 'fused' in inspect.signature(torch.optim.AdamW).parameters",
            "ok",
        ),
        (
            "foreach",
            "m = nn.Linear(2, 2).cuda()\no = torch.optim.Adam(m.parameters(), foreach=True)\nm(torch.ones(1, 2).cuda()).sum().backward(); o.step()",
            "ok",
        ),
        (
            "host fused stays",
            "m = nn.Linear(2, 2)\no = torch.optim.AdamW(m.parameters(), fused=True)\nassert o.param_groups[0]['fused']",
            "ok",
        ),
        (
            "clip and scaler",
            "m = nn.Linear(2, 2).cuda()\nm(torch.ones(1, 2).cuda()).sum().backward()\nassert nn.utils.clip_grad_norm_(m.parameters(), 1.0).is_cuda",
            "ok",
        ),
        (
            "compile with dynamic and mode",
            "f = torch.compile(lambda x: x + 1, mode='max-autotune', dynamic=False, fullgraph=True)\nassert f(torch.ones(1, device='cuda')).item() == 2",
            "ok",
        ),
        (
            "compile options",
            "f = torch.compile(lambda x: x + 1, options={'triton.cudagraphs': True})\nassert f(torch.ones(1, device='cuda')).item() == 2",
            "ok",
        ),
        (
            "compile as decorator",
            "@torch.compile(mode='reduce-overhead')\ndef f(x): return x * 2\nassert f(torch.ones(1, device='cuda')).item() == 2\n@torch.compile\ndef g(x): return x * 3\nassert g(torch.ones(1, device='cuda')).item() == 3",
            "ok",
        ),
        (
            "Module.compile",
            "m = nn.Linear(2, 2).cuda(); m.compile()\nassert m(torch.ones(1, 2, device='cuda')).is_cuda",
            "ok",
        ),
        (
            "compile of host code",
            "f = torch.compile(lambda x: x + 1)\nassert f(torch.ones(1)).item() == 2",
            "ok",
        ),
        (
            "compile disable",
            "f = torch.compile(lambda x: x + 1, disable=True)\nassert f(torch.ones(1, device='cuda')).item() == 2",
            "ok",
        ),
        (
            "compiled is_cuda branch",
            "@torch.compile(fullgraph=True)\ndef f(x):\n    return x + (1 if x.is_cuda else 2)\nassert f(torch.zeros(1, device='cuda')).item() == 1 and f(torch.zeros(1)).item() == 2",
            "ok",
        ),
        ("set_stance and reset", "torch._dynamo.reset()\ntorch.compiler.is_compiling()", "ok"),
        ("cudagraph marks", "torch.compiler.cudagraph_mark_step_begin()", "ok"),
    )
]

CORNERS = [*MEMORY, *RANDOM, *STREAMS, *GRAPHS, *PROFILING, *TYPED, *BACKENDS, *OPTIMIZERS]
