"""Python code, read: its tree, its words, what names mean, where values come from and go.

Standard library only, so that a program's own start may load it. Knows Python, not CUDA; writes nothing.
"""

from __future__ import annotations
