# attacks: scores
# tries: a tensor with methods of its own, which compute when the result is brought back
# ends: failed, error
# isolation: both
import torch


def scores(table, queries, device):
    table, queries = table.to(device), queries.to(device)
    result = torch.empty(table.shape[0], queries.shape[0], device=device)

    def detach():
        return (table @ queries.T).relu()

    result.detach = detach
    return result
