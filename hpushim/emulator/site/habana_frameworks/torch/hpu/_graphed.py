"""Training with HPU graphs: graphed callables and the cache of graphed modules."""

from __future__ import annotations

import collections
import copy
import inspect
from typing import Any

from habana_frameworks.torch.hpu import streams as _streams

import torch
from hpushim.emulator import device as emulated


def _check_callable(func: Any, args: Any) -> None:
    if isinstance(func, torch.nn.Module):
        assert not (func._backward_hooks or func._forward_hooks or func._forward_pre_hooks), (
            "make_graphed_callables: found hooks on the module; register them after graphing"
        )
        assert not any(b.requires_grad for b in func.buffers()), (
            "make_graphed_callables: found a buffer with requires_grad=True; only parameters may be trainable"
        )
    assert all(isinstance(arg, torch.Tensor) for arg in args), (
        "make_graphed_callables: sample_args of each callable must be a tuple of tensors"
    )


class _Graphed:
    """Forward and backward of one callable, captured on its sample arguments."""

    def __init__(self, func: Any, args: tuple[torch.Tensor, ...], allow_unused: bool) -> None:
        from habana_frameworks.torch.hpu import graphs

        self.arg_count = len(args)
        self.params = tuple(func.parameters()) if isinstance(func, torch.nn.Module) else ()
        self.inputs = args + self.params
        self.forward_graph, self.backward_graph = graphs.HPUGraph(), graphs.HPUGraph()
        # The capture is not a training step: statistics and random state stay as they were before it.
        self.forward_graph._undo = self.backward_graph._undo = True
        random_state = emulated.get_rng_state()
        self._capture(graphs, func, args, allow_unused)
        for captured in (self.backward_graph, self.forward_graph):
            if captured is not None:
                captured._tape.undo()
        emulated.set_rng_state(random_state)

    def _capture(self, graphs: Any, func: Any, args: Any, allow_unused: bool) -> None:
        stream = _streams.default_stream()
        with torch.enable_grad(), graphs.graph(self.forward_graph, stream=stream):
            outputs = func(*args)
        self.single = isinstance(outputs, torch.Tensor)
        self.outputs = (outputs,) if self.single else tuple(outputs)
        self.grad_outputs = [torch.empty_like(o) if o.requires_grad else None for o in self.outputs]
        wanted = [i for i in self.inputs if i.requires_grad]
        self.grad_inputs: list[Any] = [None] * len(self.inputs)
        if not wanted or not any(o.requires_grad for o in self.outputs):
            self.backward_graph = None
            return
        with graphs.graph(self.backward_graph, stream=stream):
            grads = torch.autograd.grad(
                outputs=[o for o in self.outputs if o.requires_grad],
                inputs=wanted,
                grad_outputs=[g for g in self.grad_outputs if g is not None],
                allow_unused=allow_unused,
                materialize_grads=allow_unused,
            )
        found = iter(grads)
        self.grad_inputs = [next(found) if i.requires_grad else None for i in self.inputs]

    def run(self, values: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Copy the arguments in, replay forward; returns the static outputs, detached."""
        with torch.no_grad():
            for static, value in zip(self.inputs[: self.arg_count], values, strict=False):
                if static is not value:
                    static.copy_(value)
        self.forward_graph.replay()
        return tuple(o.detach() for o in self.outputs)

    def run_backward(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy the gradients in, replay backward; returns the gradients of all inputs."""
        for static, grad in zip(self.grad_outputs, grads, strict=True):
            if static is not None:
                static.copy_(grad)
        if self.backward_graph is not None:
            self.backward_graph.replay()
        return tuple(None if g is None else g.detach().clone() for g in self.grad_inputs)


def _as_function(graphed: _Graphed) -> Any:
    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            return graphed.run(inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, *grads):
            return graphed.run_backward(grads)

    def call(*args):
        out = Replay.apply(*args, *graphed.params)
        return out[0] if graphed.single else out

    return call


def _into_module(module: Any, graphed: Any) -> Any:
    """Replace ``module.forward``; the graph serves the mode (training or not) in which it was captured."""
    captured_mode, plain = module.training, module.forward

    def forward(*args, **kwargs):
        return graphed(*args) if module.training == captured_mode else plain(*args, **kwargs)

    module.forward = forward
    return module


def make_graphed_callables(
    callables,
    sample_args,
    warmups=0,
    allow_unused_input=False,
    asynchronous=False,
    disable_tensor_cache=False,
    dry_run=False,
):
    """Graphed versions of ``callables`` (one, or a tuple), captured on ``sample_args``.

    Modules are changed in place. Arguments are copied into the sample tensors at each call; the outputs are the
    same tensors at each call.
    """
    single = not isinstance(callables, tuple)
    if single:
        callables, sample_args = (callables,), (sample_args,)
    for func, args in zip(callables, sample_args, strict=True):
        _check_callable(func, args)
    for func, args in zip(callables, sample_args, strict=True):
        for _ in range(warmups):
            func(*args)
    results = []
    for func, args in zip(callables, sample_args, strict=True):
        graphed = _as_function(_Graphed(func, tuple(args), allow_unused_input))
        results.append(
            _into_module(func, graphed) if isinstance(func, torch.nn.Module) else graphed
        )
    return results[0] if single else tuple(results)


class TensorPacker:
    """Takes the tensors out of nested tuples, lists and dicts, and puts them back."""

    class Index:
        """Takes the place of a tensor."""

        def __init__(self, value):
            self.value = value

        def __repr__(self):
            return f"#{self.value}"

    def __init__(self, is_out_pack=False, verbose=False):
        self._is_out_pack, self._verbose = is_out_pack, verbose

    def pack(self, outs):
        """(tuple of the tensors, the structure with an Index for each)."""
        tensors: list[torch.Tensor] = []

        def take(tensor):
            tensors.append(tensor)
            return self.Index(len(tensors) - 1)

        structure = self._map(outs, torch.is_tensor, take)
        return tuple(tensors), structure

    def unpack(self, tensors, metadata):
        """The structure with its tensors back in place."""
        return self._map(
            metadata, lambda one: isinstance(one, self.Index), lambda one: tensors[one.value]
        )

    def _map(self, tree, wanted, change):
        if wanted(tree):
            return change(tree)
        if isinstance(tree, dict):
            filled = copy.copy(tree)
            for key, value in tree.items():
                filled[key] = self._map(value, wanted, change)
            return filled
        if isinstance(tree, (tuple, list)):
            items = [self._map(one, wanted, change) for one in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        return tree


class GraphModel(torch.nn.Module):
    """A module whose forward takes and gives flat tuples of tensors, so that it can be graphed."""

    def __init__(
        self,
        model,
        allow_unused_input=False,
        asynchronous=False,
        disable_tensor_cache=False,
        dry_run=False,
    ):
        super().__init__()
        self.model = model
        self.assert_not_dataparallel()
        self.input_packer, self.output_packer = TensorPacker(), TensorPacker(is_out_pack=True)
        self.input_meta: Any = None
        self.output_meta: Any = None
        self.func_parameters = self.process_function_signature(model.forward)
        self.allow_unused_input, self.asynchronous = allow_unused_input, asynchronous
        self.disable_tensor_cache, self.dry_run = disable_tensor_cache, dry_run

    def forward(self, *args):
        full = self.input_packer.unpack(args, self.input_meta)
        tensors, self.output_meta = self.output_packer.pack(self.model(**full))
        return tensors

    def graph_forward(self, *args, **kwargs):
        """Replay on these arguments; returns the outputs in the model's own structure."""
        full = GraphModel.get_full_args(self.func_parameters, *args, **kwargs)
        tensors, _ = self.input_packer.pack(full)
        return self.output_packer.unpack(self.hpu_graph(*tensors), self.output_meta)

    def init_hpu_graph(self, *args, **kwargs):
        """Capture on these arguments."""
        full = GraphModel.get_full_args(self.func_parameters, *args, **kwargs)
        tensors, self.input_meta = self.input_packer.pack(full)
        # Static copies: the caller's tensors must not change when a later call copies its values in.
        static = tuple(t.detach().clone().requires_grad_(t.requires_grad) for t in tensors)
        self.hpu_graph = make_graphed_callables(
            self, static, allow_unused_input=self.allow_unused_input
        )

    def assert_not_dataparallel(self):
        """AssertionError for a model inside DataParallel or DistributedDataParallel."""
        wrapped = (torch.nn.parallel.DataParallel, torch.nn.parallel.DistributedDataParallel)
        assert not isinstance(self.model, wrapped), (
            "Use DataParallel/DistributedDataParallel only after wrapping with ModuleCacher"
        )

    @staticmethod
    def process_function_signature(function):
        """Parameter names to defaults; AssertionError for positional-only and ``*args`` parameters."""
        found = collections.OrderedDict()
        for name, parameter in inspect.signature(function).parameters.items():
            refused = (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
            assert parameter.kind not in refused, f"Unsupported argument type : {parameter.kind}"
            if parameter.kind is not parameter.VAR_KEYWORD:
                found[name] = parameter.default
        return found

    @staticmethod
    def get_full_args(forward_params, *args, **kwargs):
        """All parameters by name with their values in this call."""
        full = copy.copy(forward_params)
        for name, value in zip(list(full), args, strict=False):
            full[name] = value
        full.update(kwargs)
        return full

    @staticmethod
    def full_input_hash(forward_params, *args, **kwargs):
        """input_hash() of all parameters of this call."""
        from habana_frameworks.torch.hpu import graphs

        return graphs.input_hash(GraphModel.get_full_args(forward_params, *args, **kwargs))


class ModuleCacher(torch.nn.Module):
    """``ModuleCacher(max_graphs)(model)``: the model's training forward, captured once for each kind of input."""

    def __init__(self, max_graphs=10):
        super().__init__()
        self.max_graphs = max_graphs
        self.model_dict: dict[int, GraphModel] = {}
        self.input_count_dict: dict[int, int] = {}
        self.priority_keys: list[int] = []
        self.is_capturing = False
        self.hpugraph_tracing = False
        self.cached_hits_dict: dict[int, int] = {}
        self.uncached_train_hits = self.uncached_eval_hits = 0
        self.iteration_cnt, self.forward_cnt = -1, 0
        self.have_grad_accumulation = False

    def __call__(
        self,
        model,
        use_lfu=False,
        inplace=True,
        allow_unused_input=False,
        asynchronous=False,
        have_grad_accumulation=False,
        log_frequency=100,
        verbose=False,
        disable_tensor_cache=False,
        dry_run=False,
    ):
        """Put the cache in front of ``model.forward``; returns the model (a shallow copy unless ``inplace``)."""
        model = model if inplace else copy.copy(model)
        # Held outside the module tree: as a submodule the model would contain itself.
        self.__dict__["orig_model"], self.__dict__["model"] = copy.copy(model), model
        self.forward_params = GraphModel.process_function_signature(model.forward)
        self.allow_unused_input, self.use_lfu = allow_unused_input, use_lfu
        self.have_grad_accumulation, self.verbose = have_grad_accumulation, verbose
        self.log_frequency = log_frequency
        model.orig_forward = model.forward
        model.forward = self.forward_lfs if use_lfu else self.forward
        model.set_iteration_count, model.is_hpugraph_tracing = (
            self.set_iteration_count,
            self.is_hpugraph_tracing,
        )
        model.capture_start, model.capture_end = self.capture_start, self.capture_end
        return model

    def forward(self, *args, **kwargs):
        key = self._key(args, kwargs)
        return self._run(key, len(self.model_dict) < self.max_graphs, args, kwargs)

    def forward_lfs(self, *args, **kwargs):
        """forward() that captures only the kinds of input that capture_start() … capture_end() saw most."""
        key = self._key(args, kwargs)
        if self.is_capturing:
            self.record(key)
            return self.model.orig_forward(*args, **kwargs)
        return self._run(key, key in self.priority_keys, args, kwargs)

    def _key(self, args, kwargs):
        from habana_frameworks.torch.hpu import graphs

        self.iteration_cnt += 1
        key = GraphModel.full_input_hash(self.forward_params, *args, **kwargs)
        if self.have_grad_accumulation and self.forward_cnt == 0:
            key = graphs.input_hash((key, 1))
        return key

    def _run(self, key, may_capture, args, kwargs):
        if self.model.training and torch.is_grad_enabled():
            if key in self.model_dict:
                return self.cache_replay(key, *args, **kwargs)
            if may_capture:
                return self.cache_insert(key, *args, **kwargs)
        if self.model.training:
            self.uncached_train_hits += 1
        else:
            self.uncached_eval_hits += 1
        return self.model.orig_forward(*args, **kwargs)

    def cache_insert(self, input_id, *args, **kwargs):
        """Capture this kind of input, then replay it."""
        self.hpugraph_tracing = True
        graph_model = GraphModel(self.orig_model, self.allow_unused_input)
        graph_model.train(self.model.training)
        graph_model.init_hpu_graph(*args, **kwargs)
        self.model_dict[input_id] = graph_model
        result = self.cache_replay(input_id, *args, **kwargs)
        self.hpugraph_tracing = False
        return result

    def cache_replay(self, input_id, *args, **kwargs):
        """Replay a captured kind of input."""
        self.cached_hits_dict[input_id] = self.cached_hits_dict.get(input_id, 0) + 1
        return self.model_dict[input_id].graph_forward(*args, **kwargs)

    def set_iteration_count(self, iter_num):
        """Set the place within gradient accumulation."""
        self.forward_cnt = iter_num

    def is_hpugraph_tracing(self):
        """True while a capture runs."""
        return self.hpugraph_tracing

    def capture_start(self):
        """Begin to count the kinds of input."""
        self.is_capturing = True

    def record(self, input_id):
        """Count one input."""
        self.input_count_dict[input_id] = self.input_count_dict.get(input_id, 0) + 1

    def capture_end(self):
        """End the count: the ``max_graphs`` most frequent kinds will be captured."""
        ranked = sorted(
            self.input_count_dict, key=lambda key: self.input_count_dict[key], reverse=True
        )
        self.priority_keys, self.is_capturing, self.input_count_dict = (
            ranked[: self.max_graphs],
            False,
            {},
        )

    def log_stats(self):
        """Log hits and misses."""
        from habana_frameworks.torch.utils.debug import _hg_print

        _hg_print(
            f" graphs {len(self.model_dict)} hits {self.cached_hits_dict} train {self.uncached_train_hits}"
        )
