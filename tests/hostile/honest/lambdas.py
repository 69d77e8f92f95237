# attacks: scores
# tries: nothing: its function is a lambda
# ends: passed
# isolation: both
scores = lambda table, queries, device: (table.to(device) @ queries.to(device).T).relu()
