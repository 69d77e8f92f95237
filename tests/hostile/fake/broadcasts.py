# attacks: scores
# tries: one row, which broadcasts to the right shape
# ends: failed
# isolation: both
def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()[:1]
