"""What the paper proves about the error of MSMTFL (Theorem 8 and its lemmas), checked on data.

With r the number of non-zero rows of the true W, Lam = m lam, nu(k) = max_i rho+_i(k) / n_i, rho-(k) = min_i rho-_i(k) and
an integer s >= r, the conditions, and the bound on ||W^(l) - W||_2,1 at stage l, are

    lam      Lam >= 12 sigma sqrt(2 nu(1) ln(2 d m / eta))
    theta    theta >= 11 m Lam / rho-(2r + s)
    rows     ||w^j||_1 >= 2 theta for every non-zero row of the true W
    columns  rho+_i(s) / rho-_i(2r + 2s) <= 1 + s / (2r) for every task

    bound    0.8^(l/2) 9.1 m Lam sqrt(r) / rho-(2r + s)
             + 39.5 m sigma sqrt(nu(r) (7.4 r + 2.7 ln(2/eta))) / rho-(2r + s)

The literal form, as printed, has lam for Lam, and is false. What the paper's proof gives as it stands is weaker,
0.8^((l-1)/2) for 0.8^(l/2) (`ErrorBound.corrected`); what its steps allow is sharper (`ErrorBound.sharpened`), with
C = (1 + 0.7 sqrt 2) / 0.6 = 3.317 and q = sqrt(37/36) C / 11 = 0.306:

    sharper  C q^(l-1) m Lam sqrt(r) / rho-(2r + s)
             + 2 C (1 - q^l) / (1 - q) m sigma sqrt(nu(r) (7.4 r + 2.7 ln(2/eta))) / rho-(2r + s)

- The proof states the optimality of a stage for the loss 1/n |Xw - y|^2, but it is 1/(m n): m lam stands for lam.
- The recursion starts at stage 1: W^(0) is nowhere bounded. That costs a factor at stage 1, which
  :mod:`msmtfl.paper.theory.bounds` regains: the formula above holds at every stage.
- Lemma 13 claims two events together with probability 1 - eta. The first alone may use up eta; the second is taken from m
  events without a union bound. It does hold: by Hsu, Kakade and Zhang (2012), for all tasks at once, it fails with
  probability e^-t, m r + 2 sqrt(m r t) + 2t = m (7.4 r + 2.7 ln(2/eta)), so t >= ln(2/eta). Together: at least 1 - 1.5 eta.

Beyond the paper: rows n_i that differ (through nu); intercepts (everything on centred columns); standardised columns (the
problem as solved); k above d, where rho(k) means rho(d): the proof stays valid, since X can be padded with orthogonal
columns of a length in between, whose coefficients are 0. So where no task has dependent columns, some s meets the last
condition.
"""

from ..spectra import Interval, SparseEigenvalues, sparse_eigenvalues
from .bounds import ErrorBound, ErrorRates, error_bound, error_rates
from .columns import ColumnNumbers, mutual_coherence, mutual_incoherence, pi_constant, restricted_isometry
from .conditions import TheoryCheck, check_conditions
from .noise import SubGaussian, check_noise, sub_gaussian
from .starts import StartCheck, StartResult, check_starts
from .statements import Condition, LemmaCheck
from .supports import Incoherence, design_conditions, incoherence

__all__ = [
    "ColumnNumbers",
    "Condition",
    "ErrorBound",
    "ErrorRates",
    "Incoherence",
    "Interval",
    "LemmaCheck",
    "SparseEigenvalues",
    "StartCheck",
    "StartResult",
    "SubGaussian",
    "TheoryCheck",
    "check_conditions",
    "check_noise",
    "check_starts",
    "design_conditions",
    "error_bound",
    "error_rates",
    "incoherence",
    "mutual_coherence",
    "mutual_incoherence",
    "pi_constant",
    "restricted_isometry",
    "sparse_eigenvalues",
    "sub_gaussian",
]
