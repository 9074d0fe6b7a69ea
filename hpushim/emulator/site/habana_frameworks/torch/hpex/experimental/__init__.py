"""Experimental extensions of the vendor's package."""

from __future__ import annotations
