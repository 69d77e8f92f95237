# attacks: label
# tries: a result that ends the process when it is shown
# ends: error, failed, crashed
# isolation: both
class Bad:
    def __repr__(self):
        raise SystemExit(0)


def label(number):
    return Bad()
