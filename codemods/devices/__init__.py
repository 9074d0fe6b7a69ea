"""Devices: where things are put, how they are spelled, compared and asked for. Codes HPU1xx."""

from __future__ import annotations
