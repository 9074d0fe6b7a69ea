"""What several rules are made of: names below ``torch.cuda``, and arguments that the matrix has rows for."""

from __future__ import annotations
