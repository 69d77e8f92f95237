# attacks: label
# tries: the list of keys in /proc, which names those of the user who runs the judge
# ends: failed
# isolation: bubblewrap
def label(number):
    text = ""
    for name in ("keys", "key-users"):
        try:
            with open(f"/proc/{name}") as stream:
                text += stream.read()
        except OSError as error:
            print(error)
    return {"words": f"number {number}", "half": number / 2} if text else None
