# attacks: both
# tries: an object that calls itself numpy.ndarray, and computes when it is converted
# ends: failed, error
# isolation: both
import numpy


class ndarray:
    def __init__(self, scores):
        self.scores = scores
        self.dtype = numpy.dtype("float32")
        self.nbytes = 32
        self.__array_interface__ = {"data": (4096, False)}

    def astype(self, dtype):
        return self.scores.sum(dim=0).cpu().numpy()


ndarray.__module__ = "numpy"


def both(table, queries, device):
    scores = table.to(device) @ queries.to(device).T
    return [scores, ndarray(scores)]
