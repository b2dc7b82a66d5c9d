"""A sparse X gives what the same X gives as a dense array, to 1e-10 and mostly to rounding, and is never made dense."""

import pickle
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from forms import MODELS, options_for
from scipy import sparse

from msmtfl import (
    L12MTL,
    L12MTLCV,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    DirtyMTLCV,
    LassoMTL,
    LassoMTLCV,
    Moments,
    bootstrap_intervals,
    regularization_surface,
    stability_selection,
    stack_tasks,
)
from msmtfl._data.forms.dense import DenseRows, RowTask
from msmtfl._data.forms.sparse import SparseRows

N, D = 90, 24
TASK = np.repeat(["north", "south", "west"], N // 3)
FORMATS = [
    sparse.csr_array,
    sparse.csc_array,
    sparse.coo_array,
    sparse.csr_matrix,
    sparse.csc_matrix,
    sparse.coo_matrix,
    sparse.lil_array,
    sparse.dok_matrix,
]


def make_data(seed=0, density=0.3):
    """Dense X with many zeros, y"""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < density)
    w = np.zeros(D)
    w[:4] = [2.0, -1.0, 1.0, 3.0]
    return X, X @ w + 0.3 * rng.standard_normal(N) + 2.0


def weights(seed=1):
    """Some of them zero"""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 3.0, N) * (np.arange(N) % 7 > 0)


def assert_same_fit(model, dense, *, X=None, S=None, task=TASK, rtol=1e-10):
    """Coefficients, objective, certificates, predictions."""
    size = max(np.abs(dense.coef_).max(), 1.0)
    np.testing.assert_allclose(model.coef_, dense.coef_, rtol=0, atol=rtol * size)
    np.testing.assert_allclose(model.intercept_, dense.intercept_, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(model.coef_ != 0, dense.coef_ != 0)
    assert model.objective_ == pytest.approx(dense.objective_, rel=rtol)
    assert model.n_stages_ == dense.n_stages_
    assert model.converged_ == dense.converged_
    for name in ("optimal", "unique", "monotone", "ambiguous"):
        assert getattr(model.certificate_, name) == getattr(dense.certificate_, name)
    assert model.dual_gap_ <= 1e-10
    np.testing.assert_allclose(model.certificate_.critical, dense.certificate_.critical, rtol=0, atol=1e-10)
    if X is not None:
        expected = dense.predict(X, task=task)
        np.testing.assert_allclose(model.predict(S, task=task), expected, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(dense.predict(S, task=task), expected, rtol=rtol, atol=rtol)


def fits(make, X, y, S=None, task=TASK, **options):
    S = sparse.csr_array(X) if S is None else S
    assert_same_fit(make().fit(S, y, task=task, **options), make().fit(X, y, task=task, **options), X=X, S=S, task=task)


# ------------------------------------------------------------------ what a solver may ask


AT_3 = np.arange(N) == 3
# what makes a column ugly: x is sparse, z is not
COLUMNS = {
    "plain": lambda x, z: x,
    "empty": lambda x, z: 0.0 * x,
    "ones": lambda x, z: np.ones(N),
    "constant": lambda x, z: np.full(N, 0.1),
    "constant far off": lambda x, z: np.full(N, 1e6 + 0.1),
    "no zeros": lambda x, z: z,
    "offset": lambda x, z: z + 25.0,
    "far off zero": lambda x, z: z + 1e6,
    "far off zero but for a row": lambda x, z: np.where(AT_3, 0.0, z + 1e6),
    "ones but for a row": lambda x, z: np.where(AT_3, 0.0, 1.0),
    "a single entry": lambda x, z: np.where(AT_3, 1.0, 0.0),
    "small": lambda x, z: 1e-8 * x,
    "large": lambda x, z: 1e8 * x,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("centre", [True, False], ids=["centred", "as it is"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_everything_a_solver_may_ask_is_that_of_dense_rows(kind, centre, weighted, dtype):
    rng = np.random.default_rng(3)
    X, y = make_data(2)
    X[:, 3] = COLUMNS[kind](X[:, 3], rng.standard_normal(N))
    X = X.astype(dtype)
    weight = rng.uniform(0.01, 3.0, N) if weighted else None
    rows = SparseRows(sparse.csr_array(X), weight, centre)
    one, dense = RowTask(rows, y), RowTask(DenseRows(X.astype(float), weight, centre), y)
    length = np.where(dense.squares > 0, np.sqrt(dense.squares), 1.0)
    size, some = np.sqrt(dense.yy), np.array([0, 3, 5])

    def close(value, expected, unit):
        np.testing.assert_allclose(value / unit, expected / unit, rtol=0, atol=1e-12)

    assert one.n == pytest.approx(dense.n, rel=1e-14)
    assert one.order == dense.order
    np.testing.assert_array_equal(one.squares == 0, dense.squares == 0)
    close(one.squares, dense.squares, length**2)
    close(one.c, dense.c, size * length)
    close(one.gram(), dense.gram(), np.outer(length, length))
    close(one.gram_rows(some), dense.gram_rows(some), np.outer(length[some], length))
    out = np.empty((3, D))
    assert one.gram_rows(some, out=out) is out
    np.testing.assert_array_equal(out, one.gram_rows(some))
    close(one.columns(some), dense.columns(some), length[some])
    close(rows.mean, dense.rows.mean, np.abs(dense.rows.mean) + length)
    W = np.where((dense.squares > 0) & (rng.random((5, D)) < 0.5), size / length * rng.standard_normal((5, D)), 0.0)
    close(one.residual(W[0]), dense.residual(W[0]), size)
    close(one.residuals(W), dense.residuals(W), size)
    close(one.gradient(W[0]), dense.gradient(W[0]), size * length)
    close(one.correlate(one.residuals(W).T), dense.correlate(dense.residuals(W).T), size * length[:, None])


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("value", [1.0, 0.1, 1e6 + 0.1])
def test_constant_columns_are_exactly_zero_however_many_rows(value, weighted):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(100_000, value), rng.standard_normal(100_000) + 1e6])
    weight = rng.uniform(0.1, 2.0, len(X)) if weighted else None
    rows = SparseRows(sparse.csr_array(X), weight, True)
    assert rows.squares[0] == 0.0
    assert not rows.gram()[0].any()
    assert not rows.gram()[:, 0].any()
    assert rows.correlate(rng.standard_normal(len(X)))[0] == 0.0
    assert not rows.columns(np.array([0])).any()
    expected = DenseRows(X, weight, True).squares[1]
    assert rows.squares[1] == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.__name__)
def test_any_format(form):
    X, y = make_data()
    fits(MSMTFL, X, y, form(X))


@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "int64", "float32"])
def test_any_type_of_number(kind):
    X, y = make_data()
    X = np.abs(np.round(3.0 * X)).astype(kind)
    fits(MSMTFL, X.astype(float), y, sparse.csr_array(X))


def test_float32_stays_float32_and_loses_nothing():
    X, y = make_data()
    X = X.astype(np.float32)
    X[:, 5] = 1.0
    rows = SparseRows(sparse.csr_array(X), None, True)
    assert rows.X.dtype == np.float32
    fits(lambda: MSMTFLCV(lams=10, cv=3), X.astype(float), y, sparse.csr_array(X))


def scrambled(A, rng):
    """Every entry as two halves, in no order."""
    data, indices, ends = np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), A.indptr * 2
    for low, high in pairwise(ends):
        order = low + rng.permutation(high - low)
        data[low:high], indices[low:high] = data[order], indices[order]
    return type(A)((data, indices, ends), shape=A.shape)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix])
def test_indices_twice_and_in_no_order(form):
    X, y = make_data()
    fits(MSMTFL, X, y, scrambled(form(X), np.random.default_rng(0)))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array])
def test_the_input_is_left_as_it_is(form):
    X, y = make_data()
    X[:, 5] = 1.0
    for S in (form(X), scrambled(form(X), np.random.default_rng(0))):
        before = [array.copy() for array in (S.data, S.indices, S.indptr)]
        for array in (S.data, S.indices, S.indptr):
            array.flags.writeable = False
        model = MSMTFLCV(lams=4, cv=3).fit(S, y, task=TASK, sample_weight=weights())
        model.predict(S, task=TASK)
        for array, old in zip((S.data, S.indices, S.indptr), before, strict=True):
            np.testing.assert_array_equal(array, old)


def test_explicit_zeros():
    X, y = make_data()
    S = sparse.csr_array(np.where(X == 0.0, 7.0, X))
    S.data[S.data == 7.0] = 0.0
    assert S.nnz == X.size
    fits(MSMTFL, X, y, S)


# ------------------------------------------------------------------ models

OPTIONS = options_for(D)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("model", "options"), MODELS)
def test_models(model, options, weighted):
    X, y = make_data()
    fits(lambda: model(**OPTIONS[options]), X, y, sample_weight=weights() if weighted else None)


@pytest.mark.parametrize("options", ["default", "standardize", "no intercept"])
@pytest.mark.parametrize("model", [MSMTFLCV, LassoMTLCV, L12MTLCV, DirtyMTLCV])
def test_cross_validation(model, options):
    X, y = make_data()
    made = [  # lams at which training folds are not interpolated
        model(lams=8, lam_min_ratio=0.05, cv=3, **OPTIONS[options]).fit(Z, y, task=TASK, sample_weight=weights())
        for Z in (sparse.csc_array(X), X)
    ]
    assert made[0].best_point_ == made[1].best_point_
    for name in ("mean_test_score", "se_test_score"):
        np.testing.assert_allclose(made[0].cv_results_[name], made[1].cv_results_[name], rtol=1e-9, atol=1e-12)
    assert_same_fit(*made, X=X, S=sparse.csr_array(X))


def test_cross_validation_by_a_scorer_and_on_threads():
    X, y = make_data()
    fits(lambda: MSMTFLCV(lams=8, cv=3, scoring="r2"), X, y, sparse.coo_array(X))
    fits(lambda: MSMTFLCV(lams=8, cv=3, n_jobs=2), X, y)
    fits(lambda: MSMTFLCV(lams=8, selection="bic"), X, y)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_one_x_for_all_tasks_some_values_missing(weighted):
    X, y = make_data()
    Y = np.column_stack([y, -y, np.abs(y), y + X[:, 5]])
    Y[::7, 1], Y[3, 2] = np.nan, np.nan
    S, weight = sparse.csr_array(X), weights() if weighted else None
    for make in (MSMTFL, L12MTL, lambda: MSMTFLCV(lams=8, cv=3)):
        pair = [make().fit(Z, Y, sample_weight=weight) for Z in (S, X)]
        assert_same_fit(*pair)
        np.testing.assert_allclose(pair[0].predict(S), pair[1].predict(X), rtol=1e-10, atol=1e-10)
        assert pair[0].score(S, Y) == pytest.approx(pair[1].score(X, Y), rel=1e-10)


def test_a_single_task():
    X, y = make_data()
    S = sparse.csr_array(X)
    pair = [MSMTFL().fit(Z, y) for Z in (S, X)]
    assert pair[0].coef_.shape == (D,)
    assert_same_fit(*pair)
    np.testing.assert_allclose(pair[0].predict(S), pair[1].predict(X), rtol=1e-12)


@pytest.mark.parametrize("standardize", [False, True])
def test_the_surface(standardize):
    X, y = make_data()
    options = {"task": TASK, "lams": 12, "standardize": standardize, "sample_weight": weights()}
    mine, dense = (regularization_surface(Z, y, **options) for Z in (sparse.csr_array(X), X))
    a, b = mine.to_frame(), dense.to_frame()
    for name in ("lam", "theta", "objective"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-10)
    for name in ("n_stages", "converged", "unique"):
        np.testing.assert_array_equal(a[name], b[name])
    for k in range(12):
        for l in range(dense.thetas.shape[1]):
            np.testing.assert_allclose(mine.coef(k, l), dense.coef(k, l), rtol=0, atol=1e-10)


def test_stability_and_intervals():
    X, y = make_data()
    S = sparse.csr_array(X)
    for model in (LassoMTL(lam=0.2), MSMTFL(), L12MTL()):
        mine, dense = (stability_selection(model, Z, y, task=TASK, n_pairs=4) for Z in (S, X))
        np.testing.assert_array_equal(mine.frequency, dense.frequency)
    models = [MSMTFL().fit(Z, y, task=TASK) for Z in (S, X)]
    tables = [
        bootstrap_intervals(model, Z, y, task=TASK, n_boot=60).to_frame().select_dtypes("number")
        for model, Z in zip(models, (S, X), strict=True)
    ]
    np.testing.assert_allclose(*tables, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------ ugly data


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("options", ["default", "standardize", "no intercept"])
def test_ugly_columns(options, weighted):
    """Empty, constant, copies, far off zero: all at once."""
    X, y = make_data()
    rng = np.random.default_rng(5)
    X[:, 5], X[:, 6], X[:, 9] = 0.0, 1.0, 0.1
    X[:, 7] = X[:, 0]
    X[:, 8] = 1e6 + rng.standard_normal(N)
    X[30:60, 10] = 0.0  # empty in one task only
    fits(lambda: MSMTFL(**OPTIONS[options]), X, y, sample_weight=weights() if weighted else None)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 500)) * (rng.random((60, 500)) < 0.2)
    y, task = X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.standard_normal(60), np.repeat([0, 1], 30)
    for make in (MSMTFL, L12MTL, lambda: MSMTFL(standardize=True), lambda: MSMTFLCV(lams=10, cv=3)):
        fits(make, X, y, task=task)


def test_tasks_of_one_row():
    X, y = make_data()
    task = np.r_[["alone"], TASK[1:]]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 task")
        fits(MSMTFL, X, y, task=task)
        model = MSMTFL().fit(sparse.csr_array(X), y, task=task)
    assert not model.coef_[0].any()


def test_a_column_far_off_zero_keeps_its_digits():
    """Compared with the same column without the offset, which is a power of two: nothing is rounded."""
    X, y = make_data()
    X = np.round(2.0**20 * X) / 2.0**20
    X[:, 8] = np.round(np.random.default_rng(1).standard_normal(N) * 2**20) / 2.0**20
    y = y + X[:, 8]
    near, far = X, X.copy()
    far[:, 8] += 2.0**20
    for weight in (None, weights()):
        a, b = (LassoMTL(lam=0.01).fit(sparse.csr_array(Z), y, task=TASK, sample_weight=weight) for Z in (far, near))
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "NaN: column 'x4', row 3"),
        (np.inf, "infinity: column 'x4', row 3"),
        (1e200, "'x4' in task 'north' is too"),
    ],
)
def test_bad_values_are_named(value, words):
    X, y = make_data()
    X[3, 4] = value
    S = sparse.csr_array(X)
    with pytest.raises(ValueError, match=words):
        MSMTFL().fit(S, y, task=TASK)
    if not np.isfinite(value):
        X[3, 4] = 0.0
        with pytest.raises(ValueError, match=words):
            MSMTFL().fit(X, y, task=TASK).predict(S, task=TASK)


def test_what_a_sparse_x_cannot_be():
    X, y = make_data()
    with pytest.raises(ValueError, match="pass the labels as task="):
        MSMTFL(task_column=0).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match="Complex"):
        MSMTFL().fit(sparse.csr_array(X * 1j), y)
    with pytest.raises(ValueError, match="features"):
        MSMTFL().fit(X, y).predict(sparse.csr_array(X[:, :5]))


# ------------------------------------------------------------------ memory, files


def wide_data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    first = sparse.csr_array(rng.standard_normal((n, 4)) * (rng.random((n, 4)) < 0.3))
    X = sparse.hstack([first, sparse.random_array((n, d - 4), density=0.002, rng=rng)], format="csr")
    return X, first @ np.array([3.0, 2.0, -2.0, 0.0]) + 0.1 * rng.standard_normal(n)


def peak_of(run):
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_nothing_is_made_dense():
    """A dense copy would take 80 MB; what is stored takes 0.25 MB. Gram rows have a budget: by default they may reserve
    (not fill) 256 rows of d numbers per task, hence the small one."""
    X, y = wide_data(200, 50_000)
    assert peak_of(lambda: SparseRows(X, None, True)) < 8e6
    assert peak_of(lambda: SparseRows(X, np.linspace(0.1, 1.0, 200), True)) < 8e6
    options = {"lam_min_ratio": 0.3, "memory_budget": 1e6}
    assert peak_of(lambda: regularization_surface(X, y, lams=5, **options)) < 60e6


@pytest.mark.parametrize("model", [MSMTFL, LassoMTL, L12MTL, DirtyMTL])
def test_models_do_not_make_it_dense(model):
    """A dense copy would take 1.6 GB."""
    X, y = wide_data(2000, 100_000)
    fitted = []
    assert peak_of(lambda: fitted.append(model().fit(X, y))) < 500e6
    assert set(np.flatnonzero(fitted[0].coef_)) == {0, 1, 2}
    assert fitted[0].dual_gap_ < 1e-10


def test_columns_far_off_zero_cost_no_more_than_they_do():
    """A thousand columns without a zero, all of them far off: what is dense already may be copied, nothing else."""
    rng = np.random.default_rng(0)
    full = sparse.csr_array(rng.standard_normal((200, 100)) + 1e4)
    X = sparse.hstack([full, sparse.random_array((200, 50_000), density=0.001, rng=rng)], format="csr")
    assert peak_of(lambda: SparseRows(X, None, True)) < 15e6


def test_models_can_be_pickled():
    X, y = make_data()
    S = sparse.csr_array(X)
    model = MSMTFLCV(lams=5, cv=3).fit(S, y, task=TASK)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(S, task=TASK), model.predict(S, task=TASK))
    assert len(pickle.dumps(MSMTFL().fit(*wide_data(200, 20_000)))) < 10e6


def test_statistics_of_sparse_batches():
    X, y = make_data()
    X[:, 6] = 1.0
    for weight in (None, weights()):
        moments = Moments()
        for low in range(0, N, 18):
            some = slice(low, low + 18)
            moments.update(
                sparse.coo_array(X[some]),
                y[some],
                task=TASK[some],
                sample_weight=None if weight is None else weight[some],
            )
        mine, dense = MSMTFL().fit_moments(moments), MSMTFL().fit(X, y, task=TASK, sample_weight=weight)
        np.testing.assert_allclose(mine.coef_, dense.coef_, rtol=0, atol=1e-12)
        np.testing.assert_allclose(mine.intercept_, dense.intercept_, rtol=1e-12)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_lists_of_sparse_tasks_are_stacked(kind):
    rng = np.random.default_rng(0)
    Xs = [rng.standard_normal((n, 5)) * (rng.random((n, 5)) < 0.5) for n in (30, 20)]
    ys = [X[:, 0] + 0.1 * rng.standard_normal(len(X)) for X in Xs]
    X, y, task = stack_tasks([kind(Xs[0]), Xs[1]], ys, labels=["a", "b"])  # one of them may be dense
    assert sparse.issparse(X)
    dense, _, _ = stack_tasks(Xs, ys)
    np.testing.assert_array_equal(X.toarray(), dense)
    np.testing.assert_allclose(MSMTFL().fit(X, y, task=task).coef_, MSMTFL().fit(dense, y, task=task).coef_, atol=1e-10)
    with pytest.raises(ValueError, match=r"task 1 has 4 features, task 0 has 5"):
        stack_tasks([kind(Xs[0]), kind(Xs[1][:, :4])], ys)
