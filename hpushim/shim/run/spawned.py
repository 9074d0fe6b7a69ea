"""Takes the place of the script of ``hpushim run`` in a spawned child: loads it again, rewritten as in the parent.

multiprocessing runs this module under the name ``__mp_main__``; its namespace becomes the script's.
"""

from __future__ import annotations

if __name__ == "__mp_main__":
    import os as _os

    from hpushim.shim.run import compiling as _compiling
    from hpushim.shim.run import import_hook as _loading
    from hpushim.shim.run import launch as _run

    __file__ = _os.environ[_run.MAIN_VARIABLE]
    _loading.install()
    __loader__ = _compiling.loader("__mp_main__", __file__)
    exec(_run.code_of(__file__), globals())
