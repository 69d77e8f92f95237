# attacks: scores
# tries: nothing: it takes a second to load
# ends: passed
# isolation: both
import select

select.select([], [], [], 1)


def scores(table, queries, device):
    return (table.to(device) @ queries.to(device).T).relu()
