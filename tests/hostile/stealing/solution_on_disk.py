# attacks: label
# tries: to run the solution that lies beside the exercise
# ends: failed
# isolation: bubblewrap
def label(number):
    for place in ("@exercise@", "../..", "exercises"):
        try:
            space = {}
            exec(open(f"{place}/solution.py").read(), space)
            return space["label"](number)
        except Exception:
            continue
    return None
