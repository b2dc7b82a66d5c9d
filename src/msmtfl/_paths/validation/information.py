"""Criteria of information: what chooses a point of a grid without held-out samples."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ..._data.designs import AnyData, Floats
from ..solutions import Solutions

CRITERIA = ("aic", "bic", "ebic")


def information(surface: Solutions, data: AnyData, criterion: str) -> Floats:
    """(K, L), smaller is better: AIC, BIC or EBIC of every point, tasks having noise variances of their own.

        sum_i  n_i log(RSS_i / n_i) + charge_i,    N = sum_i n_i

        AIC    2 df_i n_i / (n_i - df_i - 2)        corrected for small samples (Hurvich and Tsai 1989)
        BIC    log N df_i n_i / (n_i - df_i - 2)    the same (McQuarrie 1999)
        EBIC   (log n_i df_i + 2 log (d choose min(df_i, d/2))) n_i / (n_i - df_i - 2)    of every task (Chen and Chen 2008,
               gamma = 1; corrected likewise, and what a search costs does not fall again where all features are in use)

    with df_i the degrees of freedom of task i, see `degrees`. They are known of convex penalties only: where a threshold
    decides what is penalised, the search for it takes part in the fit as well; AIC and BIC, which do not charge for that,
    would take noise for signal, and are NaN. EBIC charges more than the best of all models with df_i coefficients gains on
    noise, however it was found, so that it has a value everywhere.

    Where a task has more than n_i / 2 degrees of freedom, or leaves fewer than three to the noise, its RSS says nothing
    about the noise any more: it is taken as if nothing were explained, so that neither a small task nor an
    interpolated one decides for the others. Tasks with constant targets do not count. Where the scale of the loss
    is known (logistic and Poisson; that of Huber's, from its pilot fit), the deviance stands in place of the first
    term, and needs no correction.
    """
    counted = np.ones(surface.last.shape, dtype=bool) if criterion == "ebic" else surface.convex
    if not counted.any():
        raise ValueError(
            f"selection={criterion!r} needs degrees of freedom, which are known where the penalty is convex (theta = inf): "
            "no point of the grid is of that kind. Use selection='ebic' or cross-validation, or add theta = inf to the grid."
        )
    places, back = np.unique(surface.last[counted], return_inverse=True)
    problem, degrees, losses = surface.problem, surface.degrees(places), surface.losses[places]  # (places, m)
    assert problem is not None
    n = np.array([float(target.rows) for target in data.targets])
    yy = np.array([design.yy for design in problem.designs])
    varies, units = yy > 0, problem.deviance_units
    if units is None:
        silent = degrees > np.minimum(n / 2, n - 4.0)
        rss = np.where(silent, yy, np.maximum(losses, 1e-15 * yy))  # an interpolation has a logarithm too
        value = n * np.log(np.where(varies, rss, 1.0) / n)
        small = n / np.maximum(n - degrees - 2.0, np.maximum(n / 2 - 2.0, 2.0))
    else:
        value, small = losses / units, np.ones_like(degrees)
    if criterion == "ebic":
        d = len(surface.features)
        some = np.minimum(degrees, d / 2)
        search = 2.0 * (gammaln(d + 1) - gammaln(some + 1) - gammaln(d - some + 1))
        value = value + small * (np.log(n) * degrees + search)
    else:
        value = value + (2.0 if criterion == "aic" else np.log(n.sum() / getattr(data, "classes", 1))) * small * degrees
    out = np.full(counted.shape, np.nan)
    out[counted] = value[:, varies].sum(axis=1)[back]
    return out
