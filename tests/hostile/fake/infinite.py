# attacks: scores
# tries: infinities, whose differences are no numbers
# ends: failed
# isolation: both
def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu() + float("inf")
