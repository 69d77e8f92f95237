# fails: transfers
# The result ends where it should, but the work is always done on the GPU, and the large table is copied.
import torch


def similarity(table, queries):
    home = table.device if table.nbytes >= queries.nbytes else queries.device
    work = table.device if table.device.type != "cpu" else queries.device
    return (table.to(work) @ queries.to(work).T).to(home)
