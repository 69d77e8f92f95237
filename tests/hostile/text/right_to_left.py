# attacks: label
# tries: marks that turn the line round, so that it reads as another
# ends: error
# isolation: both
def label(number):
    print("\u202edessap\u202c \u2066\u200b\ufeff")
    raise ValueError("\u202e.dessap skcehc llA\u2069")
