# attacks: scores
# tries: nothing: it lets tensors show their shapes, as many do who look for a fault
# ends: passed
# isolation: both
import torch

plain = torch.Tensor.__repr__
torch.Tensor.__repr__ = lambda self, **named: f"{tuple(self.shape)} {plain(self, **named)}"


def scores(table, queries, device):
    scores = torch.nn.functional.relu(table.to(device) @ queries.to(device).T)
    print(scores.shape, repr(torch.ones(2)))
    return scores
