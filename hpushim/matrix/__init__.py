"""The compatibility matrix: what Gaudi does with CUDA-side names, from ``compat_matrix.toml``.

Everything that hpushim knows about Gaudi comes from here::

    from hpushim.matrix import load
    matrix = load()                                  # cached; no torch, no libcst
    row = matrix.row("torch.cuda.synchronize")       # Row or None
    row.status, row.target, row.runtime, row.rule, row.args, row.note
    matrix.verdict("torch.cuda.graph", Target(gaudi="gaudi2", stack="1.24", mode="eager")).status
    matrix.by_rule("HPU110"); matrix.by_runtime("alias"); matrix.arguments("torch.load")
    matrix.find("torch.cuda.mem*"); matrix.reverse("torch.hpu.synchronize"); matrix.near("torch.cuda.synchronise")
    matrix.policy.nvidia_only; matrix.policy.knows_hpu
    matrix.releases["1.24.1"].torch; matrix.torch_mismatch("1.24", torch.__version__)
    matrix.generations["gaudi2"].memory_gb; matrix.autocast.lower.split()
    matrix.operators.support["aten::add.Tensor"]; matrix.operators.dtypes("aten::mm", "gaudi1")

``covering(name)`` falls back to the row of the module, package or family (``NCCL_*``) that a name lies in;
``verdict`` does so too and says ``inherited``. Rows of a project's own files (``load(extra=[path])``) add to
or replace the shipped ones and carry their file in ``origin``. Names: Python names fully qualified, methods through their class
(``torch.Tensor.cuda``); arguments as ``torch.load(map_location=)`` or, for one value,
``torch.compile(backend='inductor')``; other kinds as a user writes them. What the columns mean is in
:mod:`hpushim.matrix.schema`.
"""

from __future__ import annotations

from hpushim.matrix.operators import Operators
from hpushim.matrix.query import Matrix, Verdict
from hpushim.matrix.reader import default_path, load, read_file
from hpushim.matrix.schema import Argument, Limit, Policy, Release, Row

__all__ = [
    "Argument",
    "Limit",
    "Matrix",
    "Operators",
    "Policy",
    "Release",
    "Row",
    "Verdict",
    "default_path",
    "load",
    "read_file",
]
