# attacks: patience
# tries: to hold the interpreter's lock in one call that takes years
# ends: timeout
# isolation: both
import re


def scores(table, queries, device):
    return re.match("(a+)+$", "a" * 60 + "b")
