"""What rules ask about a file: names, kinds of value, devices, where values go. Computed once, when first requested."""

from __future__ import annotations
