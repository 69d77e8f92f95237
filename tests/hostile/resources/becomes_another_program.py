# attacks: patience
# tries: to become a program that sleeps
# ends: error, crashed, timeout
# isolation: both
import os


def scores(table, queries, device):
    os.execv("/bin/sleep", ["sleep", "30"])
