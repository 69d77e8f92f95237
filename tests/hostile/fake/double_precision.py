# attacks: scores
# tries: the right values in another dtype
# ends: failed
# isolation: both
def scores(table, queries, device):
    return (table.to(device).double() @ queries.to(device).double().T).relu()
