"""Numbers that several kernels share; each takes them as C constants of its own when it is imported."""

KKT = 1e-11  # relative excess over a_j that counts as a violation
HUGE = 1e300  # a weight above this excludes the feature
PIVOT = 1e-12  # a column with less of its square left is dependent
LANES = 8  # columns that go through a factor together: as many as `lanes.h` keeps side by side

# What a solve may report besides success (bits).
BITS = {
    "OVERRUN": 1,  # ran out of rounds: the point returned is feasible but not optimal
    "SET_ASIDE": 2,  # a dependent feature violates optimality and could not be exchanged
    "TIED": 4,  # a feature outside the support is exactly at its bound: the minimiser may not be unique
    "WEAK": 8,  # the factor has a tiny pivot: the Gram form has lost about half of the digits
    "MISSING": 16,  # a feature without a Gram row is needed: fetch it and solve again
    "SLID": 32,  # the minimiser was not unique: the one nearest to the aim was taken
}
