# attacks: patience
# tries: folders in folders, four hundred deep
# ends: failed, error
# isolation: both
import os


def scores(table, queries, device):
    for _ in range(400):
        os.mkdir("a" * 20)
        os.chdir("a" * 20)
    return None
