# fails: placement
# Compares the table's number of rows with the queries' width: neither is a size in bytes.
import torch


def similarity(table, queries):
    if table.shape[0] < queries.shape[1]:
        table = table.to(queries.device)
    else:
        queries = queries.to(table.device)
    return table @ queries.T
