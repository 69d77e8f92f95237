# attacks: scores
# tries: right but for one element
# ends: failed
# isolation: both
def scores(table, queries, device):
    result = (table.to(device) @ queries.to(device).T).relu()
    result[23, 7] += 1.0
    return result
