"""HPU graphs of lazy mode: capture once, replay with new values in the same tensors."""

from __future__ import annotations

# ruff: noqa: F401 (names that users import from here)
import collections
import functools
from typing import Any

from habana_frameworks.torch.hpu import _capture
from habana_frameworks.torch.hpu import streams as _streams
from habana_frameworks.torch.hpu._graphed import (
    GraphModel,
    ModuleCacher,
    TensorPacker,
    make_graphed_callables,
)
from habana_frameworks.torch.utils.debug import _hg_print as hpu_graph_print

import torch


def stringify(*args):
    """The arguments in one string, a space before each."""
    return "".join(f" {one}" for one in args)


class HPUGraph:
    """Device work captured between capture_begin() and capture_end(), to be replayed."""

    def __init__(self):
        self._tape: Any = None
        self._open = False
        self._user_inputs: tuple[torch.Tensor, ...] = ()
        self._user_outputs: tuple[torch.Tensor, ...] = ()
        self._undo = False  # set where the first run will be undone

    def capture_begin(self, dry_run=False):
        """Begin to capture; ``dry_run`` has no effect here (the work runs once in any case)."""
        if self._open:
            raise RuntimeError("HPU graph capture is already underway; call capture_end() first")
        self._tape, self._open = _capture.Tape(self._undo), True
        self._tape.__enter__()

    def capture_end(self):
        """End the capture."""
        if not self._open:
            raise RuntimeError("HPU graph has no capture underway; call capture_begin() first")
        self._tape.__exit__(None, None, None)
        self._open = False

    def replay(self, asynchronous=False):
        """Run the captured work again on the tensors of the capture."""
        if self._tape is None or self._open:
            raise RuntimeError("HPU graph holds no finished capture; capture before replay")
        self._tape.replay()

    def replayV2(
        self, static_tlist: list[torch.Tensor], tlist: list[torch.Tensor], asynchronous=False
    ):
        """Copy ``tlist`` into ``static_tlist``, then replay."""
        copy_to(list(static_tlist), list(tlist))
        self.replay(asynchronous)

    def replayV3(self, tlistI: list[torch.Tensor], asynchronous=False):
        """Copy ``tlistI`` into the tensors given to mark_user_inputs(), then replay."""
        self.replayV2(self._user_inputs, tlistI, asynchronous)

    def clear_inputs(self):
        """Forget the marked inputs."""
        self._user_inputs = ()

    def mark_user_inputs(self, static_tlist: list[torch.Tensor]):
        """Name the tensors that replayV3() fills."""
        self._user_inputs = tuple(static_tlist)

    def mark_user_outputs(self, static_tlist: list[torch.Tensor]):
        """Name the tensors that the user reads."""
        self._user_outputs = tuple(static_tlist)

    def get_user_input_match_indices(self):
        """Which of the marked inputs the graph holds itself: all of them here."""
        return list(range(len(self._user_inputs)))

    def reset(self):
        """Drop the captured work."""
        self._tape = None


class graph:
    """``with torch.hpu.graph(g):`` captures the block into ``g``."""

    default_capture_stream = None

    def __init__(self, hpu_graph, stream=None, dry_run=False):
        if type(self).default_capture_stream is None:
            type(self).default_capture_stream = _streams.Stream()
        self.capture_stream = stream if stream is not None else type(self).default_capture_stream
        self.stream_ctx = _streams.stream(self.capture_stream)
        self.hpu_graph, self.dry_run = hpu_graph, dry_run

    def __enter__(self):
        self.stream_ctx.__enter__()
        _capturing.append(self.capture_stream)
        self.hpu_graph.capture_begin(self.dry_run)

    def __exit__(self, exc_type, exc_value, traceback):
        self.hpu_graph.capture_end()
        _capturing.pop()
        self.stream_ctx.__exit__(exc_type, exc_value, traceback)


_capturing: list[Any] = []


def is_current_stream_capturing():
    """True within ``with torch.hpu.graph(...)``."""
    return bool(_capturing) and _capturing[-1] == _streams.current_stream()


def input_hash(obj):
    """A hash that separates inputs which need graphs of their own: shapes, layouts, plain values, autocast."""
    autocast = torch.is_autocast_enabled("hpu")
    if isinstance(obj, dict):
        return input_hash(tuple(obj.items()))
    if isinstance(obj, collections.UserDict):
        return hash(tuple((key, tuple(value)) for key, value in obj.items()))
    if isinstance(obj, (list, tuple)) and not isinstance(obj, torch.Size):
        return hash((tuple(input_hash(one) for one in obj), autocast))
    if torch.is_tensor(obj):
        return hash((obj.shape, obj.stride(), obj.dtype, obj.device, autocast))
    return hash((obj, autocast))


def copy_to(dst, src):
    """Copy the tensors of ``src`` into those of ``dst``, a structure of the same form."""
    assert type(dst) is type(src), (
        f"copy_to: found {type(src).__name__}, expected {type(dst).__name__}"
    )
    if isinstance(dst, dict):
        assert list(dst) == list(src), "copy_to: the keys differ"
        for key, value in dst.items():
            copy_to(value, src[key])
    elif isinstance(dst, (list, tuple)) and not isinstance(dst, torch.Size):
        for to, source in zip(dst, src, strict=True):
            copy_to(to, source)
    elif torch.is_tensor(dst) and dst is not src:
        with torch.no_grad():
            dst.copy_(src, non_blocking=True)


def get_user_input_tensor_list(inputs, tlist):
    """``tlist`` with the tensors of ``inputs`` appended, as a tuple."""
    if isinstance(inputs, dict):
        inputs = tuple(inputs.items())
    if isinstance(inputs, (list, tuple)):
        for one in inputs:
            tlist = get_user_input_tensor_list(one, tlist)
        return tlist
    return (*tlist, inputs) if torch.is_tensor(inputs) else tlist


def extract_tensors(data):
    """All tensors in ``data``: in sequences, dicts, and attributes of objects."""
    if isinstance(data, torch.Tensor):
        return [data]
    if isinstance(data, dict):
        data = list(data.values())
    elif hasattr(data, "__dict__"):
        data = list(data.__dict__.values())
    if isinstance(data, (list, tuple)):
        return [tensor for one in data for tensor in extract_tensors(one)]
    return []


def get_tensor_info(tensor):
    """Shape, dtype and device of a tensor."""
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class CachedParams:
    """A captured graph with its static inputs and outputs."""

    def __init__(self, graph_inputs, graph_outputs, graph, out_tinfo_list=None, asynchronous=False):
        self.graph_inputs, self.graph_outputs, self.graph = graph_inputs, graph_outputs, graph
        self.out_tinfo_list, self.asynchronous = out_tinfo_list, asynchronous


def wrapped_hpugraph_forward(
    cache, stream, orig_fwd, args, kwargs, disable_tensor_cache, asynchronous, dry_run, max_graphs
):
    """Capture ``orig_fwd`` on new kinds of input, replay on known ones; returns the outputs of the capture, refilled.

    ``bypass_hpu_graphs=True`` in ``kwargs`` calls ``orig_fwd`` directly; ``warmup_mode=True`` skips the replay.
    """
    warmup = kwargs.pop("warmup_mode", False)
    if kwargs.pop("bypass_hpu_graphs", False):
        return orig_fwd(*args, **kwargs)
    inputs = (args, kwargs)
    key = input_hash(inputs)
    kwargs.pop("cache_tensors_list", None)
    cached = cache.get(key)
    if cached is None:
        if max_graphs is not None and len(cache) >= max_graphs:
            return orig_fwd(*args, **kwargs)
        captured = HPUGraph()
        with graph(captured, stream=stream, dry_run=dry_run):
            outputs = orig_fwd(*args, **kwargs)
        cache[key] = CachedParams(inputs, outputs, captured, None, asynchronous)
        return outputs
    if not warmup:
        copy_to(cached.graph_inputs, inputs)
        cached.graph.replay(cached.asynchronous)
    return cached.graph_outputs


def wrap_in_hpu_graph_func(
    func, asynchronous=False, disable_tensor_cache=False, dry_run=False, max_graphs=None
):
    """``func`` with one captured graph for each kind of input."""
    cache: dict[int, CachedParams] = {}

    @functools.wraps(func)
    def forward(*args, **kwargs):
        return wrapped_hpugraph_forward(
            cache,
            _streams.default_stream(),
            func,
            args,
            kwargs,
            disable_tensor_cache,
            asynchronous,
            dry_run,
            max_graphs,
        )

    forward.cache = cache
    return forward


def wrap_in_hpu_graph(
    module, asynchronous=False, disable_tensor_cache=False, dry_run=False, max_graphs=None
):
    """Replace ``module.forward`` by its graphed form (for inference); returns the module."""
    module.forward = wrap_in_hpu_graph_func(
        module.forward, asynchronous, disable_tensor_cache, dry_run, max_graphs
    )
    cache = module.forward.cache

    def clear_inputs():
        for one in cache.values():
            one.graph.clear_inputs()

    module.clear_cache = cache.clear
    module.clear_inputs = clear_inputs
    return module
