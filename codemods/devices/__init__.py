"""Devices: where things are put, how they are spelled, compared and requested. Codes HPU1xx."""

from __future__ import annotations
