# fails: placement
# Compares the rows of the one with the width of the other: neither is a size.
import torch


def similarity(table, queries):
    if table.shape[0] < queries.shape[1]:
        table = table.to(queries.device)
    else:
        queries = queries.to(table.device)
    return table @ queries.T
