# fails: placement
# The comparison is the wrong way round, so that the larger tensor moves.
import torch


def similarity(table, queries):
    if table.nbytes < queries.nbytes:
        queries = queries.to(table.device)
    else:
        table = table.to(queries.device)
    return table @ queries.T
