"""Following upstream: a migrated branch takes the commits of the CUDA project that it came from.

:mod:`~hpushim.following.merging` merges one file; :mod:`~hpushim.following.git_setup` registers it with git.
"""
