# attacks: both
# tries: a list that computes its items only when it is read
# ends: failed, error
# isolation: both
import torch


class Lazy(list):
    def __iter__(self):
        scores = self.table.to("cuda") @ self.queries.to("cuda").T
        return iter([scores, scores.sum(dim=0).cpu().numpy()])


def both(table, queries, device):
    lazy = Lazy([None, None])
    lazy.table, lazy.queries = table, queries
    table.to(device), queries.to(device), torch.ones(2, device=device).cpu()
    return lazy
