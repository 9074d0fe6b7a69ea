"""Operators of recommender models, under the names of the vendor's module."""

from __future__ import annotations

import torch


def permute_1D_sparse_data(permute, lengths, indices, weights=None):
    """Lengths and the values that belong to them, in the order ``permute``; (lengths, indices, weights or None)."""
    if weights is None:
        return (
            *torch.ops.hpu.habana_permute_1D_sparse_data_without_weights(permute, lengths, indices),
            None,
        )
    return tuple(torch.ops.hpu.habana_permute_1D_sparse_data(permute, lengths, indices, weights))


def permute_2D_sparse_data(permute, lengths, indices, weights=None):
    """The same where ``lengths`` has a row for each feature and rows are permuted."""
    if weights is None:
        return (
            *torch.ops.hpu.habana_permute_2D_sparse_data_without_weights(permute, lengths, indices),
            None,
        )
    return tuple(torch.ops.hpu.habana_permute_2D_sparse_data(permute, lengths, indices, weights))


def expand_into_jagged_permute(permute, input_offsets, output_offsets, output_size):
    """The permutation of whole groups as one of their elements."""
    return torch.ops.hpu.habana_expand_into_jagged_permute(
        permute, input_offsets, output_offsets, output_size
    )


def bounds_check_indices(rows_per_table, indices, offsets, bounds_check_mode, warning, weights):
    """Sets indices and offsets that are out of bounds to 0, in place; how loudly, ``bounds_check_mode`` says."""
    torch.ops.hpu.habana_bounds_check_indices(
        indices, offsets, warning, rows_per_table, bounds_check_mode, weights
    )


def split_permute_cat(input, indices, batch_size, num_features, dims):
    """The features of each sample (``dims`` wide) in the order ``indices``."""
    return torch.ops.hpu.habana_split_permute_cat(input, indices, batch_size, num_features, dims)
