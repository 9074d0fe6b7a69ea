"""Scale on paper: one rank of many, run on the emulated HPU with torch's fake process group.

:mod:`~hpushim.plan.rank` runs the rank and writes down what it would have sent, :mod:`~hpushim.plan.estimate` makes of it what each device
would send and hold, beside the figures of Gaudi's documents, and :mod:`~hpushim.plan.text` says it. Nothing is measured on a Gaudi.
"""
