# attacks: patience
# tries: to kill the process that started it
# ends: crashed, error, failed
# isolation: bubblewrap
import os
import pathlib
import select
import signal


def scores(table, queries, device):
    if not pathlib.Path("@watched@").exists():
        for process in {os.getppid(), 1, 2, 3} - {os.getpid()}:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        select.select([], [], [], 0.5)
    return None
