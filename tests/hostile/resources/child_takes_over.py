# attacks: patience
# tries: to continue as its own child, whose parent is gone
# ends: failed, error, crashed, timeout, needs review
# isolation: both
import os
import select


def scores(table, queries, device):
    if os.fork():
        os._exit(0)
    os.setsid()
    select.select([], [], [], 0.5)
    return None
