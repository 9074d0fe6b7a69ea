"""What every test needs, in whatever way the suite was started."""

from __future__ import annotations

import signal
import threading

# A job that a script starts in the background ignores Ctrl-C, or the end of its terminal, and so do all its children: the tests of
# stopping would wait.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as nohup has it
