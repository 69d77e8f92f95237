# attacks: patience
# tries: to use up the stack
# ends: crashed, error, out of memory, timeout
# isolation: both
import sys

sys.setrecursionlimit(1 << 30)


def scores(table, queries, device):
    return scores(table, queries, device)
