# attacks: scores
# tries: to compute on the CPU and to move the result to the device
# ends: failed
# isolation: both
def scores(table, queries, device):
    table.to(device), queries.to(device)
    return (table @ queries.T).relu().to(device)
