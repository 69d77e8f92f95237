# attacks: scores
# tries: to recognise its input by where it lies, and to take the last one for any other
# ends: failed
# isolation: both
cache = {}


def scores(table, queries, device):
    table, queries = table.to(device), queries.to(device)
    key = table.data_ptr() if not cache else next(iter(cache))
    if key not in cache:
        cache[key] = (table @ queries.T).relu()
    return cache[key]
