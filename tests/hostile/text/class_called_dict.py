# attacks: label
# tries: a class that is called as what is expected
# ends: failed
# isolation: both


class dict:  # noqa: A001
    def keys(self):
        return []


def label(number):
    return dict()
