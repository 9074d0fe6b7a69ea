"""Internals of the vendor's package that libraries reach for."""

from __future__ import annotations

from habana_frameworks.torch._not_modelled import module_getattr

__getattr__ = module_getattr(__name__)
