# attacks: patience
# tries: to stop every process above it, so that no process ends the grading
# ends: crashed, error, failed, timeout
# isolation: bubblewrap
import os
import pathlib
import signal


def scores(table, queries, device):
    if not pathlib.Path("@watched@").exists():
        for process in {os.getppid(), 1, 2, 3} - {os.getpid()}:
            try:
                os.kill(process, signal.SIGSTOP)
            except OSError:
                pass
    return None
