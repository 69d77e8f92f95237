# attacks: scores
# tries: to compute in half precision and to return float32
# ends: failed
# isolation: both
def scores(table, queries, device):
    return (table.to(device).half() @ queries.to(device).half().T).relu().float()
