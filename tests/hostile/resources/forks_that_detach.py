# attacks: scores
# tries: a hundred processes in sessions of their own, whose parents are gone
# ends: error
# isolation: both
import os
import select


def scores(table, queries, device):
    for _ in range(100):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                select.select([], [], [], 20)
            os._exit(0)
    select.select([], [], [], 20)
