# attacks: patience
# tries: a result that cannot be shown
# ends: timeout, failed
# isolation: both
class Slow:
    def __repr__(self):
        while True:
            pass


def scores(table, queries, device):
    return Slow()
