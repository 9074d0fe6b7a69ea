"""The device's checks as one table: 63 subjects and more, each a named check, and apart from
them the counts of behaviour.

``python tests/emulator/device_checks.py`` runs the tests that the table names and prints for each check passed, failed
or skipped with its reason, then a count for each kind of behaviour. A check is no test of its own: it names the tests
that hold it, by function and, after a colon, by parameter.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TENSORS, TRAINING, STATE, BEHAVIOUR = (
    f"test_device_{name}.py" for name in ("tensors", "training", "state", "behaviour")
)
OPERATORS = f"{TENSORS}::test_operators_equal_the_cpu"
FACTORIES = f"{TENSORS}::test_factories_equal_the_cpu"
LAYERS = f"{TRAINING}::test_layers_equal_the_cpu"
STEPS = f"{TRAINING}::test_four_steps_equal_the_cpu"
AUTOCAST, PROFILER, PROCESS = "test_device_autocast.py", "test_profiler.py", "test_process.py"
REFUSALS, SHARING = "test_refusals.py", "test_sharing.py"

# subject → {check: the tests that hold it}. Values are compared with the CPU's, element by element, where there are any.
CHECKS: dict[str, dict[str, str]] = {
    "tensors": {
        "plain operators": f"{OPERATORS}:arithmetic",
        "reductions": f"{OPERATORS}:reduction",
        "matrix products": f"{OPERATORS}:matmul",
        "factories": FACTORIES,
        "torch.tensor": f"{FACTORIES}:tensor",
        "default device": f"{FACTORIES}:default_device",
        "from_numpy": f"{TENSORS}::test_arrays_come_in_through_the_cpu",
        ".numpy() is an error": f"{TENSORS}::test_copies_cross_the_boundary_by_value",
        "copies by value": f"{TENSORS}::test_copies_cross_the_boundary_by_value",
        "type(x) is Tensor": f"{TENSORS}::test_a_tensor_there_is_a_plain_tensor",
        "printing": f"{REFUSALS}::test_tensors_of_every_dtype_print",
    },
    "memory of a tensor": {
        "views share memory": f"{TENSORS}::test_views_share_memory_and_writes_show",
        "in place": f"{TENSORS}::test_outputs_that_are_inputs_come_back_as_themselves",
        "out=": f"{TENSORS}::test_out_is_resized_like_on_the_cpu",
        "x.data = y": f"{TENSORS}::test_data_assignment_and_set_move_a_tensor_to_other_memory",
        "set_": f"{TENSORS}::test_data_assignment_and_set_move_a_tensor_to_other_memory",
        "storage resize_": f"{TENSORS}::test_storage_can_be_emptied_and_given_back",
        "version counter": f"{TENSORS}::test_version_counter_catches_a_write_between_forward_and_backward",
    },
    "autograd": {
        ".grad": f"{TENSORS}::test_gradients_accumulate_and_can_be_dropped",
        "autograd.Function": f"{TRAINING}::test_hooks_and_custom_functions",
        "hooks": f"{BEHAVIOUR}::test_hooks_see_the_cpus_values_in_its_order",
        "custom_op": f"{TRAINING}::test_custom_op_with_a_cpu_kernel_runs",
        "checkpointing": f"{TRAINING}::test_checkpointing_replays_dropout",
        "torch.func": f"{TRAINING}::test_functional_transforms",
        "vmap": f"{TRAINING}::test_functional_transforms",
    },
    "modules and optimizers": {
        "Module.to keeps parameters": STEPS,
        "optimizer made before .to": STEPS,
        "type(p) is Parameter": STEPS,
        "SGD": f"{STEPS}:sgd",
        "Adam": f"{STEPS}:adam",
        "AdamW": f"{STEPS}:adamw",
        "foreach": f"{STEPS}:adamw_foreach",
        "fused": f"{STEPS}:adam_fused",
        "RMSprop": f"{STEPS}:rmsprop",
        "clip_grad_norm_": STEPS,
    },
    "layers": {
        "convolution and batch norm": f"{LAYERS}:conv_norm",
        "conv_transpose": f"{LAYERS}:conv_transpose",
        "embedding": f"{LAYERS}:embedding",
        "embedding_bag": f"{LAYERS}:embedding_bag",
        "cross_entropy": f"{LAYERS}:cross_entropy",
        "dropout": f"{LAYERS}:dropout",
        "LSTM": f"{LAYERS}:lstm",
        "GRU": f"{LAYERS}:gru",
        "packed sequences": f"{LAYERS}:packed",
        "scaled_dot_product_attention": f"{LAYERS}:attention",
        "TransformerEncoderLayer": f"{LAYERS}:encoder_layer",
        "small GPT, training steps": f"{STEPS}:gpt",
        "small conv net, training steps": f"{STEPS}:conv",
    },
    "indexing": {
        "indices": f"{OPERATORS}:index",
        "masks": f"{OPERATORS}:mask",
        "nonzero": f"{OPERATORS}:nonzero",
        "unique": f"{OPERATORS}:unique",
        "topk": f"{OPERATORS}:topk",
    },
    "mathematics": {
        "fft": f"{OPERATORS}:fft",
        "linalg.inv": f"{OPERATORS}:inverse",
        "einsum": f"{OPERATORS}:einsum",
        "fp8 casts": f"{OPERATORS}:fp8",
    },
    "devices": {
        "mixed devices are an error": f"{TENSORS}::test_tensors_of_two_devices_do_not_mix_but_a_cpu_scalar_may",
        "0-dim CPU tensors may mix": f"{TENSORS}::test_tensors_of_two_devices_do_not_mix_but_a_cpu_scalar_may",
        "one index, hpu:0": f"{TENSORS}::test_one_device_index",
        "torch.accelerator": f"{STATE}::test_torch_takes_it_for_the_accelerator",
        "torch.accelerator memory": f"{BEHAVIOUR}::test_accelerator_memory_statistics",
        "streams": f"{STATE}::test_streams_and_events",
        "events": f"{STATE}::test_streams_and_events",
    },
    "mixed precision": {
        "autocast bfloat16": f"{AUTOCAST}::test_lower_precision_operators",
        "gradients under autocast": f"{AUTOCAST}::test_gradients_arrive_in_the_parameters_type",
        "GradScaler": f"{TRAINING}::test_scaler_runs_on_hpu",
    },
    "files and copies": {
        "torch.save and load": f"{TENSORS}::test_save_and_load_keep_or_move_the_device",
        "map_location to hpu": f"{BEHAVIOUR}::test_a_file_of_the_cpu_loads_into_a_model_on_hpu_and_back",
        "map_location to cpu": f"{BEHAVIOUR}::test_a_checkpoint_goes_on_where_it_stopped",
        "shared storages": f"{TENSORS}::test_save_and_load_keep_or_move_the_device",
        "deepcopy and pickle, tensors": f"{TENSORS}::test_pickle_and_deepcopy",
        "deepcopy and pickle, modules": f"{TENSORS}::test_modules_and_optimizer_states_are_copied_and_pickled",
        "deepcopy of optimizer state": f"{TENSORS}::test_modules_and_optimizer_states_are_copied_and_pickled",
    },
    "loading data": {
        "DataLoader with pin_memory": f"{PROCESS}::test_data_loader_workers_and_pinning",
        "Tensor.pin_memory": f"{STATE}::test_pinned_memory_is_known_by_its_address",
        "workers and the device": f"{SHARING}::test_workers_that_leave_the_device_alone",
    },
    "random numbers": {
        "Generator": f"{STATE}::test_generator_objects",
        "manual_seed": f"{STATE}::test_manual_seed_gives_the_cpus_stream",
        "state and fork_rng": f"{STATE}::test_random_state_comes_back",
    },
    "tools": {
        "profiler, CPU activity": f"{PROFILER}::test_device_events_alone_and_the_host_alone",
        "profiler, HPU activity": f"{PROFILER}::test_operators_and_their_device_time",
        "compile, own backend": f"{TRAINING}::test_a_custom_compile_backend_sees_hpu",
        "AOTAutograd": f"{TRAINING}::test_compile_traces_what_runs",
        "FakeTensor": f"{TRAINING}::test_fake_tensors_follow_shapes_without_memory",
    },
    "what a Gaudi has not": {
        "sparse tensors": f"{REFUSALS}::test_sparse_tensors_are_refused_with_their_code",
        "quantised tensors": f"{REFUSALS}::test_quantised_tensors_are_refused_with_their_code",
        "DLPack": f"{REFUSALS}::test_dlpack_is_refused_with_the_way_out",
        "memory shared between processes": f"{SHARING}::test_sending_device_memory_is_refused_with_the_way_out",
        "shared CPU tensors": f"{SHARING}::test_cpu_tensors_are_shared_as_ever",
        "dtypes by policy": f"{REFUSALS}::test_each_policy_on_each_generation",
        "named tensors": f"{REFUSALS}::test_named_tensors",
    },
}

# Behaviour → the tests that hold it: a file, or a file and how its tests' names begin.
BEHAVIOURS: dict[str, tuple[str, ...]] = {
    "streams": (f"{STATE}::test_streams", "api/test_api_hpu.py::test_streams", f"{BEHAVIOUR}::test_accelerator_device"),
    "events": (f"{STATE}::test_streams_and_events", "api/test_api_hpu.py::test_events", "api/test_api_hpu.py::test_streams_and_events"),
    "memory statistics": (f"{STATE}::test_memory", f"{STATE}::test_training_leaves", "api/test_api_hpu.py::test_memory",
                          "api/test_api_hpu.py::test_accumulated", "api/test_api_profiles.py::test_memory", f"{BEHAVIOUR}::test_accelerator_memory"),
    "metrics": ("api/test_api_hpu.py::test_metrics", "api/test_api_lazy.py::test_in_lazy_mode:test_recompilations_reach_the_metric"),
    "random state": (f"{STATE}::test_manual_seed", f"{STATE}::test_random", f"{STATE}::test_generator", f"{STATE}::test_the_two_streams",
                     f"{STATE}::test_sharing_the_cpus_stream", "api/test_api_hpu.py::test_random", "api/test_api_hpu.py::test_fork_rng"),
    "graphs": ("api/test_api_lazy.py::test_in_lazy_mode", "test_ledger.py::test_lazy_graphs", "test_ledger.py::test_eager_mode", "test_ledger.py::test_structure"),
    "autocast lists": (AUTOCAST, "api/test_api_hpu.py::test_autocast"),
    "serialization": (f"{TENSORS}::test_save_and_load", f"{TENSORS}::test_pickle", f"{TENSORS}::test_modules_and_optimizer", "api/test_api_hpu.py::test_generators_and_modules",
                      f"{BEHAVIOUR}::test_every_dtype_is_saved", f"{BEHAVIOUR}::test_a_checkpoint", f"{BEHAVIOUR}::test_a_file", f"{BEHAVIOUR}::test_files"),
    "hooks": (f"{BEHAVIOUR}::test_hooks", f"{BEHAVIOUR}::test_a_hook", f"{TRAINING}::test_hooks"),
    "dynamic shapes": (f"{BEHAVIOUR}::test_static", f"{BEHAVIOUR}::test_shapes", f"{BEHAVIOUR}::test_dynamic", f"{BEHAVIOUR}::test_sizes",
                       f"{BEHAVIOUR}::test_results_whose", f"{BEHAVIOUR}::test_lazy_mode", "api/test_api_hpu.py::test_recompilation"),
    "environment flags": (f"{BEHAVIOUR}::test_environment", f"{BEHAVIOUR}::test_a_flag", "api/test_api_profiles.py::test_wrong", "api/test_api_profiles.py::test_an_unset",
                          "api/test_api_profiles.py::test_forbidden", "api/test_api_hpu.py::test_visible", "api/test_api_hpu.py::test_launch", f"{PROFILER}::test_switched"),
    "API names": ("api/test_api_names.py",),
    "profiler": (PROFILER,),
    "processes": (SHARING, PROCESS),
    "refusals by policy": (REFUSALS,),
}  # fmt: skip


@dataclass
class Outcomes:
    """What a pytest run said of each test."""

    found: dict[str, str] = field(default_factory=dict)  #: test id below this folder → outcome
    reasons: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called by pytest for each phase of each test."""
        name = report.nodeid.rpartition("tests/emulator/")[2]
        if report.when == "call" or report.outcome != "passed":
            self.found[name] = report.outcome
        if report.skipped:
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.reasons[name] = str(text).removeprefix("Skipped: ")

    def of(self, named: str, begins: bool = False) -> dict[str, str]:
        """The outcomes of the tests that an entry of a table names."""
        target, _, parameter = named.partition(":") if "::" not in named else _split(named)
        return {
            name: outcome
            for name, outcome in self.found.items()
            if _matches(name, target, parameter, begins)
        }


def _split(named: str) -> tuple[str, str, str]:
    file, _, rest = named.partition("::")
    function, colon, parameter = rest.partition(":")
    return f"{file}::{function}", colon, parameter


def _matches(name: str, target: str, parameter: str, begins: bool) -> bool:
    plain, _, given = name.partition("[")
    if "::" not in target:
        return plain.startswith(f"{target}::")
    if not (plain.startswith(target) if begins else plain == target):
        return False
    given = given.rstrip("]")
    return not parameter or parameter == given or parameter in given.split("-")


def files() -> list[str]:
    """The test files that the tables name."""
    entries = [t for subject in CHECKS.values() for t in subject.values()]
    entries += [t for group in BEHAVIOURS.values() for t in group]
    return sorted({entry.partition("::")[0] for entry in entries})


def verdict(outcomes: Outcomes, tests: str) -> tuple[str, str]:
    """(passed, failed, skipped or missing; why) of a check."""
    found = outcomes.of(tests)
    if not found:
        return "missing", f"no test {tests} ran"
    bad = [name for name, outcome in found.items() if outcome == "failed"]
    if bad:
        return "failed", ", ".join(bad)
    passed = sum(outcome == "passed" for outcome in found.values())
    if passed:
        return "passed", f"{passed} test{'s' if passed > 1 else ''}"
    return "skipped", outcomes.reasons.get(next(iter(found)), "")


def main() -> int:
    """Run and print the two tables; 1 when a check failed or is missing."""
    import pytest

    outcomes = Outcomes()
    options = ["-q", "--no-header", "-p", "no:cacheprovider", *sys.argv[1:]]
    pytest.main([*options, *(str(HERE / name) for name in files())], plugins=[outcomes])
    totals: Counter[str] = Counter()
    for subject, checks in CHECKS.items():
        sys.stdout.write(f"\n{subject}\n")
        for name, tests in checks.items():
            outcome, why = verdict(outcomes, tests)
            totals[outcome] += 1
            sys.stdout.write(f"  {outcome:8} {name} ({why})\n")
    sys.stdout.write(f"\nchecks, emulated hpu: {dict(totals)} of {totals.total()}\n\nbehaviour\n")
    for area, entries in BEHAVIOURS.items():
        merged = {n: o for entry in entries for n, o in outcomes.of(entry, begins=True).items()}
        counts = Counter(merged.values())
        sys.stdout.write(f"  {area}: {dict(counts) or 'missing'}\n")
    return int(totals["failed"] + totals["missing"] > 0)


if __name__ == "__main__":
    sys.exit(main())
