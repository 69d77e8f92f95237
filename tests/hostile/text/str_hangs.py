# attacks: patience
# tries: an exception whose message never comes
# ends: timeout
# isolation: both
class Slow(Exception):
    def __str__(self):
        while True:
            pass

    __repr__ = __str__


def scores(table, queries, device):
    raise Slow
