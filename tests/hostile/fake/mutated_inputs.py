# attacks: scores
# tries: to make its inputs fit a wrong result
# ends: failed
# isolation: both
def scores(table, queries, device):
    result = (table.to(device) @ queries.to(device).T).relu()
    table.zero_()
    queries.zero_()
    return result
