# fails: transfers
# Returns the result in the right place, but always computes on the GPU, which copies the large table.
import torch


def similarity(table, queries):
    home = table.device if table.nbytes >= queries.nbytes else queries.device
    work = table.device if table.device.type != "cpu" else queries.device
    return (table.to(work) @ queries.to(work).T).to(home)
