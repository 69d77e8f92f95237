# attacks: scores
# tries: nothing: it prints a few lines
# ends: passed
# isolation: both
import sys


def scores(table, queries, device):
    print("shapes", table.shape, queries.shape)
    print("a warning", file=sys.stderr)
    return (table.to(device) @ queries.to(device).T).relu()
