"""Ledgers of runs: read, joined over its processes, and shown to people.

The emulator records (:mod:`hpushim.emulator.ledger`); nothing here talks to torch. ``story`` makes the last lines of
``hpushim run``; ``reading`` and ``telling`` make of a file what the renderers ``text``, ``markdown``, ``html`` and ``json`` show;
``join`` holds a report's findings beside what happened.
"""
