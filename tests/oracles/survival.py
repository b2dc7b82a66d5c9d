"""Cox's partial likelihood by its definition: a loop over events, in extended precision."""

import numpy as np


def signed(time, event):
    """Targets of times and events, as losses take them."""
    return np.where(event, time, -np.asarray(time, dtype=np.float64))


def partial_likelihood(y, v, f, ties="efron"):
    """Minus its logarithm, less that of a saturated model."""
    time, event = np.abs(y), ~np.signbit(y) & (v > 0)
    v, f = np.asarray(v, dtype=np.longdouble), np.asarray(f, dtype=np.longdouble)
    e, total = v * np.exp(f - f.max(initial=0)), np.longdouble(0)
    for t in np.unique(time[event]):
        tied, risk = event & (time == t), time >= t
        d, weight = int(tied.sum()), v[tied].sum()
        for k in range(d):
            share = np.longdouble(k) / d if ties == "efron" else np.longdouble(0)
            total += weight / d * np.log((e[risk].sum() - share * e[tied].sum()) / (weight * (1 - share)))
        total -= (v[tied] * (f[tied] - f.max(initial=0))).sum()
    return total
