# attacks: label
# tries: an exception whose message raises what ends the process
# ends: error
# isolation: both
class Bad(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


def label(number):
    raise Bad
