# attacks: patience
# tries: to abort
# ends: crashed
# isolation: both
import os


def scores(table, queries, device):
    os.abort()
