# attacks: scores
# tries: to return at once and to let a thread do the work
# ends: failed
# isolation: both
import select
import threading

import torch


def scores(table, queries, device):
    table, queries = table.to(device), queries.to(device)
    result = torch.zeros(24, 8, device=device)

    def work():
        select.select([], [], [], 0.5)
        result.copy_((table @ queries.T).relu())

    threading.Thread(target=work, daemon=True).start()
    return result
