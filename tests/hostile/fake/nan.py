# attacks: scores
# tries: what compares with nothing: NaN everywhere
# ends: failed
# isolation: both
def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu() * float("nan")
