# attacks: scores
# tries: a hundred and fifty processes that sleep
# ends: error
# isolation: both
import os
import select


def scores(table, queries, device):
    for _ in range(150):
        if os.fork() == 0:
            select.select([], [], [], 20)
            os._exit(0)
    select.select([], [], [], 20)
