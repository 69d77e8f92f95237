# attacks: patience
# tries: to stop its own process, so that it does not even end
# ends: timeout
# isolation: both
import os
import signal


def scores(table, queries, device):
    os.kill(os.getpid(), signal.SIGSTOP)
