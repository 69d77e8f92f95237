# attacks: scores
# tries: to work in the first two calls only
# ends: failed
# isolation: both
calls = []


def scores(table, queries, device):
    calls.append(1)
    table, queries = table.to(device), queries.to(device)
    result = (table @ queries.T).relu()
    return result if len(calls) < 3 else result * 0.5
