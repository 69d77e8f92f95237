# attacks: scores
# tries: events that measure nothing, and waits that do not wait
# ends: failed, needs review
# isolation: both
import torch

torch.cuda.Event.elapsed_time = lambda *_: 0.001
torch.cuda.Event.synchronize = lambda *_: None
torch.cuda.synchronize = lambda *_: None


def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
