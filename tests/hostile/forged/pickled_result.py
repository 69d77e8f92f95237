# attacks: label
# tries: a result that runs code in the process that unpickles, copies or compares it
# ends: failed
# isolation: both
import os


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/hostile-unpickled",)

    __reduce_ex__ = __deepcopy__ = __copy__ = lambda self, *_: os.system("touch /tmp/hostile-copied")

    def __eq__(self, other):
        return True

    __hash__ = None


def label(number):
    return {"words": Bomb(), "half": Bomb()}
