# attacks: label
# tries: to import the checks, the judge and the exercise by every name that they may have
# ends: failed
# isolation: both
import importlib
import sys


def label(number):
    sys.path += [".", "..", "/", "/work"]
    names = ["checks", "given", "solution", "reference", "exercise", "gpututor.judge.grader", "__main__"]
    for name in [*names, *(name for name in sys.modules if "check" in name or "given" in name)]:
        try:
            module = importlib.import_module(name)
        except BaseException:
            continue
        for function in ("expected", "label"):
            if callable(getattr(module, function, None)):
                try:
                    return getattr(module, function)({"number": number}, None)
                except BaseException:
                    pass
    return None
