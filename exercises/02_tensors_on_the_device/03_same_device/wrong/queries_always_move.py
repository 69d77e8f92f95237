# fails: placement
# Moves the queries to the table whatever their sizes are.
import torch


def similarity(table, queries):
    return table @ queries.to(table.device).T
