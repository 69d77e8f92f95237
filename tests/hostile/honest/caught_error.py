# attacks: scores
# tries: nothing: it tries something, and continues when that fails
# ends: passed
# isolation: both
def scores(table, queries, device):
    try:
        raise SystemExit(1)
    except SystemExit:
        pass
    return (table.to(device) @ queries.to(device).T).relu()
