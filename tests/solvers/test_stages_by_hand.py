"""What stages hand on: which solution is kept, what is proven of it, who is told. Solvers and certificates are stand-ins."""

from dataclasses import FrozenInstanceError, dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from msmtfl._objective.penalties import ConcaveRows
from msmtfl._objective.proofs.certificates import GAP
from msmtfl._objective.proofs.dual_points import Doubt
from msmtfl._objective.shapes import MCP
from msmtfl._runtime.progress import Listener
from msmtfl._solvers import class_stages, coupled_stages, lasso_stages, stages
from msmtfl._solvers.lassos.lasso_solver import OVERRUN
from msmtfl._solvers.proofs import rather_zero
from msmtfl._solvers.stages import Outcome, in_words, limit, run_stages

M, D = 3, 4
LARGE, SMALL = 1e-3, 1e-12  # gaps
NOTHING = np.empty(0, dtype=np.intp)


class Told(Listener):
    def __init__(self, stop_after=0):
        self.heard, self.stop_after = [], stop_after

    def begin_stage(self):
        self.heard.append("begin")

    def task_done(self):
        self.heard.append("task")

    def end_stage(self):
        self.heard.append("end")
        return self.heard.count("end") == self.stop_after

    def end(self):
        self.heard.append("over")


@dataclass(frozen=True)
class Proof:
    gap: float = SMALL
    kkt: float = 0.0
    unique: bool = True
    dependent: object = ()
    doubt: object = None
    escapes: object = ()
    factor: float = field(default=1.0)

    @property
    def relative_gap(self):
        return self.gap * self.factor


# ------------------------------------------------------------------ Algorithm 1


class Scripted:
    """A solver whose stages are given."""

    def __init__(self, coefs, **changes):
        rng = np.random.default_rng(0)
        self.X, self.y = rng.normal(size=(5, D)), rng.normal(size=5)
        loss = SimpleNamespace(d=D, n=5, loss=lambda w: float(((self.y - self.X @ w) ** 2).sum()))
        self.designs, self.coefs, self.changes, self.calls = [loss] * M, list(coefs), changes, []

    def solve(self, weights, last, max_iter, listener):
        self.calls.append((weights, last.copy(), max_iter))
        n = len(self.calls)
        gap = self.changes.get("gaps", [0.0] * 9)[n - 1]
        finished = self.changes.get("finished", True)
        return Outcome(self.coefs[n - 1], 10 + n, finished, gap, 0.1 * n, n > 1, (NOTHING,) * M, Doubt("far"))

    def violation(self, weights, W):
        self.last = weights, W
        return 0.25


def large(rows, size=1.0):
    W = np.full((M, D), 0.01)
    W[:, rows] = size
    return W


PENALTY = ConcaveRows(0.5, 1.0, np.ones((D, M)))  # capped where a row's sizes add up to 1


def test_stages_are_what_their_solver_returns():
    solver, told = Scripted([large([0]), large([0, 2]), large([0, 2], 2.0)]), Told()
    found = run_stages(PENALTY, solver, max_stages=9, max_iter=77, listener=told)
    assert found.converged
    assert found.reason == stages.REPEATS
    assert [one.stage for one in found.stages] == [1, 2, 3]
    assert [one.n_iter for one in found.stages] == [11, 12, 13]
    assert [one.unique for one in found.stages] == [False, True, True]
    assert [one.free_rows.tolist() for one in found.stages] == [[], [0], [0, 2]]
    assert [one.kkt for one in found.stages] == pytest.approx([0.1, 0.2, 0.3])
    assert [one.doubt.kind for one in found.stages] == ["far"] * 3
    assert all(0.0 <= one.seconds < 10.0 for one in found.stages)
    for one in found.stages:
        loss = sum(((solver.y - solver.X @ w) ** 2).sum() for w in one.coef) / (M * 5)
        norms = np.abs(one.coef).sum(axis=0)
        assert one.objective == pytest.approx(loss + 0.5 * np.minimum(norms, 1.0).sum(), rel=1e-12)
    assert [max_iter for *_, max_iter in solver.calls] == [77] * 3
    np.testing.assert_array_equal(solver.calls[0][1], np.zeros((M, D)))
    np.testing.assert_array_equal(solver.calls[2][1], large([0, 2]))
    np.testing.assert_array_equal(found.free, np.repeat([[True], [False], [True], [False]], M, axis=1))
    assert found.row_slopes.tolist() == [0.0, 1.0, 0.0, 1.0]
    assert found.critical == 0.25
    np.testing.assert_array_equal(solver.last[0][:, 0], [0.0, 0.5, 0.0, 0.5])
    assert solver.last[1] is found.stages[-1].coef
    assert told.heard == ["begin", "end"] * 3 + ["over"]


def test_a_stage_cannot_be_changed_afterwards():
    (stage,) = run_stages(ConcaveRows(0.1, np.inf, np.ones((D, M))), Scripted([np.ones((M, D))])).stages
    with pytest.raises(FrozenInstanceError):
        stage.dual_gap = 0.0


def test_stages_may_begin_elsewhere():
    solver = Scripted([large([1])])
    found = run_stages(PENALTY, solver, start=large([1]))
    assert found.stages[0].free_rows.tolist() == [1]
    np.testing.assert_array_equal(solver.calls[0][1], large([1]))
    assert found.converged


@pytest.mark.parametrize(("gap", "stops"), [(1e-6, False), (1.1e-6, True), (np.nan, True), (np.inf, True)])
def test_a_stage_that_is_not_solved_to_tol_is_the_last(gap, stops):
    solver = Scripted([large([0]), large([0, 1]), large([0, 1])], gaps=[0.0, gap, 0.0])
    found = run_stages(PENALTY, solver, tol=1e-6)
    assert found.converged != stops
    assert len(found.stages) == (2 if stops else 3)
    if stops:
        assert found.reason == stages.UNSOLVED.format(2, gap, 1e-6)


def test_a_solver_that_ran_out_of_rounds_is_the_doubt():
    found = run_stages(PENALTY, Scripted([large([0])] * 2, finished=False))
    assert [one.doubt.kind for one in found.stages] == ["unfinished"] * 2


def test_a_listener_may_ask_to_stop():
    found = run_stages(PENALTY, Scripted([large([0]), large([0, 1]), large([0, 1])]), listener=Told(stop_after=1))
    assert (len(found.stages), found.reason, found.converged) == (1, stages.ASKED, False)
    again = run_stages(PENALTY, Scripted([large([0]), large([0])]), listener=Told(stop_after=2))
    assert (again.reason, again.converged) == (stages.REPEATS, True)  # it has converged all the same


def test_reasons_in_words():
    ones = np.ones((D, M))
    assert limit(1) == stages.ONE_STAGE
    assert limit(2) == stages.LIMIT.format(2)
    assert in_words(ConcaveRows(1.0, np.inf, ones)) == stages.CONVEX
    assert in_words(ConcaveRows(1.0, 2.0, ones)) == stages.REPEATS
    assert in_words(ConcaveRows(1.0, 2.0, ones, MCP())) == stages.SAME_WEIGHTS
    assert in_words(ConcaveRows(1.0, 2.0, ones, lam_entry=0.1, theta_entry=1.0)) == stages.SAME_WEIGHTS
    found = run_stages(PENALTY, Scripted([large([0]), large([1]), large([0])]), max_stages=2)
    assert found.reason == stages.LIMIT.format(2)


def test_zeros_are_kept_where_they_are_proven_to_be_nearer():
    W = np.ones(D)

    def proven(gap):
        return lambda w: Proof(gap=gap, doubt="of zeros") if not w.any() else pytest.fail("only zeros are tried")

    near = Proof(gap=1.0)
    kept, same = rather_zero(W, near, lambda w: pytest.fail("a gap of 1 is that of zeros"))
    assert kept is W
    assert same is near
    far = Proof(gap=1.1, doubt="rounding")
    kept, proof = rather_zero(W, far, proven(1.05))
    assert kept.tolist() == [0.0] * D
    assert (proof.gap, proof.doubt) == (1.05, "rounding")
    kept, proof = rather_zero(W, far, proven(1.1))
    assert kept is W
    assert proof is far


# ------------------------------------------------------------------ lassos


class Lassos:
    """Solves to W, and repairs to `better`."""

    def __init__(self, W, better=None, status=0):
        self.designs = [SimpleNamespace(n=5, d=D)] * M
        self.W, self.better, self.grams, self.n_jobs, self.m, self.positive = W, better, "grams", 1, M, False
        self.status, self.repaired = np.array([0, status, 0]), []

    def solve(self, A, reference, max_iter):
        self.asked = A, reference, max_iter
        return self.W.copy(), np.array([4, 9, 2])

    def design(self, i):
        return self.designs[i]

    def limit(self, i):
        return False

    def repair(self, i, w, a, aim):
        self.repaired.append((i, aim.copy()))
        return self.better[i]


@pytest.fixture
def gaps(monkeypatch):
    """Certificates by the first entry of w; the relative ones are half of them."""
    of = {}

    def certify(design, w, a, limit):
        return Proof(gap=of[float(w[0])], kkt=float(w[0]), factor=0.5, dependent=NOTHING)

    monkeypatch.setattr(lasso_stages, "certify_task", certify)
    return of


@pytest.mark.parametrize("status", [0, OVERRUN])
def test_a_task_that_is_not_certified_is_repaired_unless_rounds_are_over(gaps, status):
    W, better = np.zeros((M, D)), np.zeros((M, D))
    W[:, 0], better[:, 0] = [1.0, 2.0, 3.0], [0.0, 5.0, 6.0]
    gaps.update({1.0: 2.0 * GAP, 2.0: 3.0 * GAP, 3.0: 3.0 * GAP, 5.0: SMALL, 6.0: 4.0 * GAP})
    lassos, told = Lassos(W, better, status), Told()
    aim = np.arange(12.0).reshape(M, D)
    found, proofs = lasso_stages.certified(lassos, W.copy(), np.ones((M, D)), aim, told)
    second = 2.0 if status else 5.0  # the first is good enough, the repaired third is worse
    assert found[:, 0].tolist() == [1.0, second, 3.0]
    assert [proof.kkt for proof in proofs] == [1.0, second, 3.0]
    assert [i for i, _ in lassos.repaired] == ([2] if status else [1, 2])
    np.testing.assert_array_equal(lassos.repaired[-1][1], aim[2])
    assert told.heard == ["task"] * M


def test_a_task_that_is_certified_is_not_repaired(gaps):
    W = np.ones((M, D))
    gaps.update({1.0: SMALL, 2.0: 0.0})
    lassos = Lassos(W, 2.0 * W)
    found, _ = lasso_stages.certified(lassos, W.copy(), W, W, Told())
    assert (found == 1.0).all()
    assert lassos.repaired == []


def test_a_repair_that_is_no_better_is_not_kept(gaps):
    W = np.ones((M, D))
    gaps.update({1.0: 3.0 * GAP, 2.0: 3.0 * GAP})
    found, _ = lasso_stages.certified(Lassos(W, 2.0 * W), W.copy(), W, W, Told())
    assert (found == 1.0).all()


class Warned:
    """In the place of `Separation`."""

    def __init__(self, data, way_out=""):
        self.data, self.told = data, []

    def warn(self, features):
        self.told.append(features)


PROOFS = [
    Proof(kkt=0.1, dependent=np.array([1]), escapes=False),
    Proof(kkt=0.3, unique=False, dependent=np.array([2]), escapes=True),
    Proof(kkt=0.2, dependent=NOTHING, doubt="why", escapes=False),
]


def check(outcome, status):
    assert outcome.n_iter == 9
    assert type(outcome.n_iter) is int
    assert outcome.finished == (status != OVERRUN)
    assert outcome.dual_gap == 0.125
    assert outcome.kkt == 0.3
    assert outcome.unique is False
    assert [one.tolist() for one in outcome.ambiguous] == [[1], [2], []]
    assert outcome.doubt == "why"


@pytest.mark.parametrize("status", [0, OVERRUN, 2 * OVERRUN])
@pytest.mark.parametrize("kind", ["lassos", "losses", "classes"])
def test_a_stage_is_what_is_known_of_all_its_tasks(monkeypatch, kind, status):
    W, last, weights, told = np.ones((M, D)), np.zeros((M, D)), np.arange(12.0).reshape(D, M), Told()
    lassos = Lassos(W, status=status)
    for module in (lasso_stages, class_stages):
        monkeypatch.setattr(module, "Separation", Warned)
        monkeypatch.setattr(module, "relative_gap", lambda designs, proofs: 0.125)
    monkeypatch.setattr(lasso_stages, "main_doubt", lambda designs, proofs: "why")
    if kind == "lassos":
        monkeypatch.setattr(lasso_stages, "certified", lambda lassos, W, *more: (W, PROOFS))
        solver = lasso_stages.LassoStages(lassos)
    elif kind == "losses":
        lassos.designs = [SimpleNamespace(n=5, d=D) for _ in range(M)]
        numbered = {id(design): i for i, design in enumerate(lassos.designs)}
        monkeypatch.setattr(lasso_stages, "certify_task", lambda design, w, a, limit: PROOFS[numbered[id(design)]])
        solver = lasso_stages.LossStages(lassos, lassos.designs, "data")
    else:
        lassos.at, lassos.escaped = (lambda lam: None), {}
        problem = SimpleNamespace(designs=lassos.designs, at=lambda lam: lassos.designs, data="data")
        monkeypatch.setattr(class_stages, "certify_held", lambda problem, W, A, lam: PROOFS)
        solver = class_stages.ClassStages(lassos, problem, 0.5)
        assert solver.violation(weights, W) == 0.3
    outcome = solver.solve(weights, last, 55, told)
    check(outcome, status)
    A, reference, max_iter = lassos.asked
    np.testing.assert_allclose(A, M * 5 / 2 * weights.T)
    assert reference is last
    assert max_iter == 55
    np.testing.assert_array_equal(outcome.coef, W)
    if kind != "lassos":
        assert told.heard == ["task"] * M
        ((where, features),) = solver.separation.told[0].items()
        assert (where, features.tolist()) == (1, [2])
    if kind == "classes":
        lassos.escaped = {0: "known"}
        solver.solve(weights, last, 55, told)
        assert solver.separation.told[-1] == {0: "known"}


# ------------------------------------------------------------------ stages that couple the tasks


@pytest.fixture
def coupled(monkeypatch):
    monkeypatch.setattr(coupled_stages, "Separation", Warned)
    monkeypatch.setattr(coupled_stages, "pressed", lambda problem, forces: SimpleNamespace(designs=["pressed", forces]))
    return monkeypatch


def test_stages_of_norms_of_rows(coupled):
    W, proof = (
        np.ones((M, D)),
        Proof(gap=2.0, kkt=0.2, unique=False, dependent=("a", "b", "c"), doubt="why", escapes=(1,)),
    )
    rows = SimpleNamespace(solve=lambda weights, max_iter: (W, 7 + max_iter), finished=False, forces="forces")
    problem = SimpleNamespace(at=lambda lam: ["design"] * M, data="data")
    coupled.setattr(coupled_stages, "pressed", lambda problem, forces: SimpleNamespace(at=lambda lam: [forces, lam]))
    seen = []

    def certify(designs, W, weights):
        seen.append(designs)
        return proof if W.any() else Proof(gap=1.5)

    coupled.setattr(coupled_stages, "certify_rows", certify)
    coupled.setattr(coupled_stages, "row_violation", lambda designs, W, weights: (designs, W, weights))
    solver, told = coupled_stages.RowStages(rows, problem, 0.5), Told()
    outcome = solver.solve("weights", np.zeros((M, D)), 30, told)
    assert not outcome.coef.any()  # zeros are nearer
    assert (outcome.dual_gap, outcome.n_iter, outcome.finished, outcome.doubt) == (1.5, 37, False, "why")
    assert seen == [["forces", 0.5]] * 2
    assert told.heard == ["task"] * M
    assert solver.violation("weights", W) == (["forces", 0.5], W, "weights")
    proof = replace(proof, gap=0.5)
    outcome = solver.solve("weights", np.zeros((M, D)), 30, told)
    assert outcome.coef is W
    assert (outcome.kkt, outcome.unique, outcome.ambiguous) == (0.2, False, ("a", "b", "c"))
    assert solver.separation.told[-1] == {1: "b"}


STACKED = SimpleNamespace(
    m=M,
    d=(M + 1) * D,
    width=D,
    n=5,
    parts=["part"] * M,
    tasks="tasks",
    classes=1,
    scale=2.0,
    sums=lambda P: P.reshape(M + 1, D),
)


class Common:
    def __init__(self, first, better, finished=True):
        self.stacked, self.grams, self.ridge, self.finished = STACKED, "grams", np.ones(STACKED.d), finished
        self.first, self.better, self.repaired = first, better, 0

    def solve(self, a, reference, max_iter):
        self.asked = a, reference, max_iter
        return np.full(STACKED.d, self.first), 21

    def repair(self, P, a, reference):
        self.repaired += 1
        self.repaired_from = P.copy(), a, reference
        return np.full(STACKED.d, self.better)


GAPS = {1.0: LARGE, 2.0: SMALL, 3.0: 2.0 * LARGE, 4.0: GAP, 5.0: 0.99 * LARGE, 6.0: 0.5 * GAP}
WEIGHTS = SimpleNamespace(weights=lambda: np.arange(float(STACKED.d)), at=lambda P: WEIGHTS)
CASES = [  # solved to, repaired to, whether rounds were enough, kept, whether a repair is tried
    (1.0, 2.0, True, 2.0, 1),
    (1.0, 5.0, True, 5.0, 1),
    (1.0, 3.0, True, 1.0, 1),
    (1.0, 1.0, True, 1.0, 1),
    (1.0, 2.0, False, 1.0, 0),
    (4.0, 2.0, True, 4.0, 0),
    (6.0, 2.0, True, 6.0, 0),
]


@pytest.mark.parametrize(("first", "better", "finished", "kept", "tried"), CASES)
@pytest.mark.parametrize("ridged", [False, True])
def test_a_common_part_is_repaired_where_that_is_better(coupled, ridged, first, better, finished, kept, tried):
    lassos, told = Common(first, better, finished), Told()
    problem = SimpleNamespace(data="data", d=D, groups=None)
    coupled.setattr(coupled_stages, "settled", lambda weights, P, tasks: P)
    coupled.setattr(coupled_stages, "within", lambda problem, P: P)
    coupled.setattr(coupled_stages, "ridged", lambda design, ridge: design)

    def proof(value):
        of = np.array([0, 2 * D + 3]) if ridged else ("a", "b", "c")
        return Proof(gap=GAPS[float(value)], kkt=float(value), dependent=of, escapes=() if ridged else (2,))

    coupled.setattr(coupled_stages, "certify", lambda design, P, a: proof(P[0]))
    coupled.setattr(coupled_stages, "certify_shared", lambda designs, sums, weights, classes: proof(sums[1, 2]))
    kind = coupled_stages.RidgedCommonStages if ridged else coupled_stages.CommonStages
    solver, last = kind(lassos, problem), np.arange(2.0 * STACKED.d).reshape(2, -1)
    outcome = solver.solve(WEIGHTS, last, 44, told)
    assert outcome.coef.shape == (1, STACKED.d)
    assert (outcome.coef == kept).all()
    assert (outcome.dual_gap, outcome.kkt, outcome.n_iter, outcome.finished) == (GAPS[kept], kept, 21, finished)
    assert lassos.repaired == tried
    a, reference, max_iter = lassos.asked
    if tried:  # from what was found, with the same weights and the same point that the answer is to be near to
        for one, other in zip(lassos.repaired_from, (np.full(STACKED.d, first), a, last[0]), strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(a, 0.5 * M * np.arange(STACKED.d))
    np.testing.assert_array_equal(reference, last[0])
    assert max_iter == 44
    assert told.heard == ["task"] * M
    if ridged:  # feature 0 of b concerns all, feature 3 of the second deviations the second task
        assert [one.tolist() for one in outcome.ambiguous] == [[0], [0, 3], [0]]
    else:
        assert outcome.ambiguous == ("a", "b", "c")
        assert solver.separation.told == [{2: "c"}]


def test_a_solver_that_cannot_repair_is_taken_as_it_is(coupled):
    coupled.setattr(coupled_stages, "settled", lambda weights, P, tasks: P)
    coupled.setattr(coupled_stages, "within", lambda problem, P: P)
    coupled.setattr(coupled_stages, "certify_shared", lambda *_: Proof(gap=LARGE, dependent=("a", "b", "c")))
    lassos = SimpleNamespace(
        stacked=STACKED, grams=None, finished=True, solve=lambda a, reference, max_iter: (np.ones(STACKED.d), 3)
    )
    solver = coupled_stages.CommonStages(lassos, SimpleNamespace(data="data", d=D, groups=None))
    assert solver.solve(WEIGHTS, np.zeros((1, STACKED.d)), 0, Told()).dual_gap == LARGE


def test_violations_are_those_of_the_point_that_is_asked_for(coupled):
    lassos, problem = Common(1.0, 1.0), SimpleNamespace(data="data", d=D, groups=None)
    P = np.stack([np.full(STACKED.d, 7.0), np.full(STACKED.d, 8.0)])
    coupled.setattr(coupled_stages, "shared_violation", lambda designs, sums, weights, classes: sums[0, 0])
    assert coupled_stages.CommonStages(lassos, problem).violation(WEIGHTS, P) == 7.0
    coupled.setattr(coupled_stages, "ridged", lambda design, ridge: design)
    coupled.setattr(coupled_stages, "largest_violation", lambda designs, P, A: (P, A))
    found, A = coupled_stages.RidgedCommonStages(lassos, problem).violation(WEIGHTS, P)
    assert found is P
    np.testing.assert_array_equal(A, 0.5 * M * np.arange(STACKED.d)[None])
    of_point = lambda designs, scale, P, weights, ridge, classes: Proof(  # noqa: E731
        kkt=P[0], gap=scale, dependent=("a",), doubt="why", unique=False
    )
    coupled.setattr(coupled_stages, "certify_common_ridges", of_point)
    solver, told = coupled_stages.RidgedLossStages(lassos, problem), Told()
    assert solver.violation(WEIGHTS, P) == 7.0
    outcome = solver.solve(WEIGHTS, P, 12, told)
    assert (outcome.dual_gap, outcome.kkt, outcome.n_iter, outcome.doubt) == (2.0, 1.0, 21, "why")
    assert (outcome.finished, outcome.unique, outcome.ambiguous) == (True, False, ("a",))
    np.testing.assert_array_equal(lassos.asked[0], 0.5 * M * np.arange(STACKED.d))
    np.testing.assert_array_equal(lassos.asked[1], P[0])
    assert outcome.coef.shape == (1, STACKED.d)
    assert told.heard == ["task"] * M


@pytest.mark.parametrize("classes", [1, 2])
def test_stages_of_pooling(coupled, classes):
    m = M * classes
    b, V = np.arange(float(classes * D)).reshape(classes, D), np.arange(float(m * D)).reshape(m, D) + 100.0
    parts = [SimpleNamespace(d=D, n=5, loss=lambda w, k=k: k * float(w.sum())) for k in range(1, m + 1)]
    problem, seen = SimpleNamespace(designs=parts, classes=classes, data="data"), []
    pooling = SimpleNamespace(
        problem=problem,
        steps=6,
        finished=False,
        forces=None,
        one=lambda k, c: (k * b if classes > 1 else k * b[0], c * V),
    )

    def certify(designs, P, weights, given):
        seen.append((P.copy(), given))
        return Proof(gap=0.5, kkt=0.1, unique=False, dependent=("x",), doubt="why")

    coupled.setattr(coupled_stages, "certify_pooled", certify)
    coupled.setattr(coupled_stages, "with_free_level", lambda problem, gap, W: (gap + W.sum(), W[0, 0]))
    solver, told = coupled_stages.PoolingStages(pooling), Told()
    outcome = solver.solve(SimpleNamespace(k=2.0, k_common=3.0), np.zeros(1), 0, told)
    W = np.array([2.0 * b[i % classes] + 3.0 * V[i] for i in range(m)])
    assert outcome.dual_gap == pytest.approx(0.5 + W.sum(), rel=1e-14)
    assert outcome.kkt == W[0, 0]
    P = np.concatenate([2.0 * b.ravel(), 3.0 * V.ravel()])
    np.testing.assert_array_equal(outcome.coef, P[None])
    np.testing.assert_array_equal(seen[0][0], P)
    assert seen[0][1] == classes
    assert (outcome.n_iter, outcome.finished, outcome.unique, outcome.doubt) == (6, False, False, "why")
    assert told.heard == ["task"] * m
    assert solver.violation("weights", np.stack([P, 2 * P])) == 0.1
    np.testing.assert_array_equal(seen[-1][0], P)
    (loss,) = solver.designs
    assert (loss.n, loss.d) == (5 * m, (m + classes) * D)
    assert loss.loss(P) == pytest.approx(sum(k * w.sum() for k, w in enumerate(W, start=1)), rel=1e-14)


def test_stages_of_points(coupled):
    height, warm, seen = 2, [], []
    solver = SimpleNamespace(
        solve=lambda weights, max_iter: (np.full((height, D), 3.0), max_iter + 1), finished=True, warm=warm.append
    )
    penalty = SimpleNamespace(height=height, kappa=[2.0, 4.0], coefs=lambda P: P * np.array([[1.0], [10.0]]))
    parts = [SimpleNamespace(d=D, loss=lambda w: float(w.sum()))] * 2

    def certify(designs, P, weights):
        seen.append((designs, P))
        return Proof(gap=0.25, kkt=P[0, 0], unique=False, dependent=("x",), doubt="why")

    problem = SimpleNamespace(designs=parts, data="data")
    found, told = coupled_stages.PointStages(problem, penalty, solver, certify, near="near"), Told()
    assert warm == ["near"]
    coupled_stages.PointStages(problem, penalty, solver, certify)
    assert warm == ["near"]
    outcome = found.solve(SimpleNamespace(height=height), np.zeros(1), 8, told)
    assert outcome.coef.shape == (1, height * D)
    assert (outcome.n_iter, outcome.dual_gap, outcome.kkt, outcome.doubt) == (9, 0.25, 3.0, "why")
    assert told.heard == ["task"] * 2
    assert len(seen) == 1
    P = np.arange(2.0 * height * D).reshape(2, -1)
    assert found.violation(SimpleNamespace(height=height), P + 5.0) == 5.0
    assert seen[-1][1].shape == (height, D)
    (loss,) = found.designs
    assert (loss.n, loss.d) == (1.0, height * D)
    W = np.arange(float(height * D)).reshape(height, D) * np.array([[1.0], [10.0]])
    assert loss.loss(np.arange(float(height * D))) == pytest.approx(0.5 * (2.0 * W[0].sum() + 4.0 * W[1].sum()))
