# fails: runs
# Calls .to() and does not keep what it returns.
import torch


def similarity(table, queries):
    if table.nbytes >= queries.nbytes:
        queries.to(table.device)
    else:
        table.to(queries.device)
    return table @ queries.T
