# attacks: patience
# tries: to kill every process that it may
# ends: crashed, error, failed
# isolation: bubblewrap
import os
import pathlib
import signal


def scores(table, queries, device):
    if not pathlib.Path("@watched@").exists():
        os.kill(-1, signal.SIGKILL)
    return None
