# attacks: label
# tries: to exit in the function through an exception group, after a first right answer
# ends: error
# isolation: both
calls = []


def label(number):
    calls.append(number)
    if len(calls) > 1:
        raise BaseExceptionGroup("done", [SystemExit(0), KeyboardInterrupt()])
    return {"words": f"number {number}", "half": number / 2}
