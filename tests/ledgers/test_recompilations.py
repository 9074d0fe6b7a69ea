"""Real trainings: no recompilation by shapes where shapes are constant, exactly the planted ones where they are not."""

from __future__ import annotations

import pytest

VARIABLE = ("16", "16", "24", "16", "24", "32", "16")  # three lengths, two of them new


@pytest.mark.parametrize("mode", ["eager", "lazy"])
@pytest.mark.parametrize("program", ["resnet", "gpt", "gan", "layers"])
def test_constant_shapes_compile_nothing_again(ran, program, mode):
    found = ran(program, mode=mode)
    assert found.by_shape == 0, found.books["recompilation_causes"]
    assert found.books["compute_operators"]["cpu"] == 0


def test_a_step_size_that_changes_is_told_apart(ran):
    """Adam gives addcdiv_ another number in each step, which is part of the graph; SGD gives none."""
    adam = ran("gpt")
    assert adam.books["recompilations"] == adam.books["recompilations_by_number"] > 0
    names = {cause["operator"] for cause in adam.books["recompilation_causes"]}
    assert names == {"aten::addcdiv_"}
    assert ran("resnet").books["recompilations"] == 0


def test_a_new_length_compiles_each_graph_once_more(ran):
    """In eager mode: as many graphs for each of the two new lengths, none when a length comes again."""
    found = ran("gpt", *VARIABLE)
    entries = found.books["steps"]["entries"]
    by_shape = [one["recompilations"] - one["recompilations_by_number"] for one in entries]
    assert by_shape[2] == by_shape[5] > 0
    assert sum(by_shape) == by_shape[2] + by_shape[5] == found.by_shape


def test_in_lazy_mode_a_new_length_compiles_the_graph_of_the_step(ran):
    """Two graphs a step (to the mark behind backward, and the update); the update's has no length in it."""
    found = ran("gpt", *VARIABLE, mode="lazy")
    assert found.by_shape == 2
    causes = [
        cause
        for cause in found.books["recompilation_causes"]
        if any(one["kind"] != "number" for one in cause["differences"])
    ]
    assert [(c["differences"][0]["before"], c["differences"][0]["after"]) for c in causes] == [
        ("16", "24"),
        ("24", "32"),
    ]


def test_the_dimension_that_changed_is_named(ran):
    """Every cause is of the length, 16 to 24 to 32, or of batch times length, 64 to 96 to 128."""
    sizes = ({"16", "24", "32"}, {"64", "96", "128"})
    causes = [
        one
        for cause in ran("gpt", *VARIABLE).books["recompilation_causes"]
        for one in cause["differences"]
        if one["kind"] != "number"
    ]
    assert causes
    for one in causes:
        assert one["kind"] == "dimension" and one["dimension"] is not None, one
        assert any({one["before"], one["after"]} <= known for known in sizes), one


@pytest.mark.parametrize("mode", ["eager", "lazy"])
def test_a_short_last_batch_is_the_first_dimension(ran, mode):
    found = ran("resnet", "--short-batch", mode=mode)
    assert found.by_shape > 0
    entries = found.books["steps"]["entries"]
    assert all(one["recompilations"] == 0 for one in entries[:-1])
    causes = found.books["recompilation_causes"]
    changes = {
        (one["dimension"], one["before"], one["after"])
        for cause in causes
        for one in cause["differences"]
        if one["kind"] == "dimension"
    }
    assert (0, "8", "3") in changes
    assert all(after == "3" for dimension, before, after in changes if before == "8"), changes
