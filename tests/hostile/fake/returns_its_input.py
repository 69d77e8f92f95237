# attacks: scores
# tries: to hand its input back
# ends: failed
# isolation: both
def scores(table, queries, device):
    queries.to(device)
    return table.to(device)
