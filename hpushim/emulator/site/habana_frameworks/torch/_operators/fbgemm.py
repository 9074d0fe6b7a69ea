"""Permutations of jagged data, as recommender models have them."""

from __future__ import annotations

from habana_frameworks.torch._operators._library import operator

import torch


def _expanded(permute, starts, lengths):
    """The positions of the elements of groups, groups in the order ``permute``."""
    pieces = [torch.arange(0, dtype=permute.dtype)]
    for group in permute.tolist():
        start = int(starts[group])
        pieces.append(torch.arange(start, start + int(lengths[group]), dtype=permute.dtype))
    return torch.cat(pieces)


@operator(
    "habana_expand_into_jagged_permute(Tensor permute, Tensor input_offsets, Tensor output_offsets, int output_size) -> Tensor"
)
def expand_into_jagged_permute(permute, input_offsets, output_offsets, output_size):
    """``input_offsets`` has one element more than ``permute``."""
    return _expanded(permute, input_offsets, input_offsets.diff())


def _permuted(permute, lengths, indices, weights):
    flat = lengths.reshape(lengths.shape[0], -1)
    per_row = flat.sum(1)
    starts = torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
    order = _expanded(permute.long(), starts, per_row)
    kept = () if weights is None else (weights[order],)
    return (lengths[permute.long()], indices[order], *kept)


_ARGUMENTS = "Tensor permute, Tensor lengths, Tensor indices"


@operator(
    f"habana_permute_1D_sparse_data({_ARGUMENTS}, Tensor? weights=None) -> (Tensor, Tensor, Tensor)"
)
@operator(
    f"habana_permute_2D_sparse_data({_ARGUMENTS}, Tensor? weights=None) -> (Tensor, Tensor, Tensor)"
)
def permute_sparse_data(permute, lengths, indices, weights=None):
    """Groups of indices and of weights in the order ``permute``."""
    return _permuted(permute, lengths, indices, weights)


@operator(f"habana_permute_1D_sparse_data_without_weights({_ARGUMENTS}) -> (Tensor, Tensor)")
@operator(f"habana_permute_2D_sparse_data_without_weights({_ARGUMENTS}) -> (Tensor, Tensor)")
def permute_sparse_data_without_weights(permute, lengths, indices):
    """Groups of indices in the order ``permute``."""
    return _permuted(permute, lengths, indices, None)


_FATAL, _WARNING, _IGNORE = range(3)


@operator(
    "habana_bounds_check_indices(Tensor(a!) indices, Tensor(b!) offsets, Tensor(c!) warning, Tensor rows_per_table, "
    "int bounds_check_mode, Tensor? weights) -> (Tensor(a!), Tensor(b!), Tensor(c!))"
)
def bounds_check_indices(indices, offsets, warning, rows_per_table, bounds_check_mode, weights):
    """Indices beyond a table's rows, and offsets beyond the indices, become 0 (or their nearest bound); in mode 1 (warning)
    they are counted; in mode 0 (fatal) an index becomes -1; in mode 3 nothing is checked."""
    if bounds_check_mode > _IGNORE:
        return indices, offsets, warning
    tables = rows_per_table.numel()
    batch = (offsets.numel() - 1) // tables
    wrong = (offsets < 0) | (offsets > indices.numel())
    offsets.clamp_(0, indices.numel())
    count = int(wrong.sum())
    for table in range(tables):
        begin, end = int(offsets[table * batch]), int(offsets[(table + 1) * batch])
        rows = indices[begin:end]
        beyond = (rows < 0) | (rows >= rows_per_table[table])
        count += int(beyond.sum())
        rows.masked_fill_(beyond, 0)
    if count and bounds_check_mode == _FATAL and indices.numel():
        indices[0] = -1
    if bounds_check_mode == _WARNING:
        warning.add_(count)
    return indices, offsets, warning


@operator(
    "habana_split_permute_cat(Tensor input, Tensor indices, int batch_size, int num_features, int dims) -> Tensor"
)
def split_permute_cat(input, indices, batch_size, num_features, dims):
    """``input`` is (batch, features * dims)."""
    split = input.reshape(batch_size, num_features, dims)
    return split[:, indices.long()].reshape(batch_size, -1)
