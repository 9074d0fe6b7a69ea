"""What a rule is, what it requests, how rules are found and run, and their pages."""

from __future__ import annotations
