"""Many repositories assessed as one: each has a report of its own, and all of them one page, table and JSON file.

:mod:`judging` assesses one repository, :mod:`engines` runs that for many (in processes here, or on a Ray cluster), :mod:`folder` keeps
the results, so that a run that was stopped goes on, :mod:`rows` reads one row from each report, and :mod:`page` draws them.
"""
