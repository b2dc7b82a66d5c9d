"""A ridge, intercepts that share and offsets: in every family, for every form of the data and every work. What is refused is
refused in words."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import msmtfl
from msmtfl import Moments, compare_models
from msmtfl.model_files import load_model, save_model

FAMILIES = ("LassoMTL", "MSMTFL", "L12MTL", "DirtyMTL", "SharedMTL", "PartialPooling", "PretrainedMTL")
OPTIONS = {
    "ridge": {"l1_ratio": 0.5},
    "shrunk": {"intercepts": "shrunk"},
    "common": {"intercepts": "common"},
    "offset": {},
    "all": {"l1_ratio": 0.5, "intercepts": "shrunk"},
}
GRIDS = {"PartialPoolingCV": {"ks": 3}}  # of others: lams
UNKNOWN = {"PartialPooling": {"l1_ratio"}}  # ridges only


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    m, n, d = 4, 20, 4
    task, X = np.repeat(np.arange(m), n), rng.standard_normal((m * n, d))
    slopes = np.array([1.0, -1.0, 0.5, 0.0]) + 0.2 * rng.standard_normal((m, d))
    offset = 0.3 * rng.standard_normal(m * n)
    y = (
        np.einsum("nj,nj->n", X, slopes[task])
        + offset
        + rng.standard_normal(m)[task]
        + 0.5 * rng.standard_normal(m * n)
    )
    return X, y, task, offset


def asked(name, option, search=False, **more):
    """The estimator with an option."""
    grid = (GRIDS.get(f"{name}CV", {"lams": 3}) | {"cv": 2}) if search else {}
    return getattr(msmtfl, f"{name}CV" if search else name)(**grid, **OPTIONS[option], **more)


def target(loss, y):
    return y if loss == "squared" else np.floor(np.exp(np.clip(y / 2, -2, 2)))


CASES = [
    (name, option) for name in FAMILIES for option in OPTIONS if not OPTIONS[option].keys() & UNKNOWN.get(name, set())
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_possible_is_no_parameter(name):
    for suffix in ("", "CV"):
        assert not UNKNOWN[name] & set(getattr(msmtfl, name + suffix)().get_params())


@pytest.mark.parametrize(
    ("name", "option", "loss"),
    [(*case, loss) for case in CASES for loss in ("squared", "poisson") if (case[0], loss) != ("LassoMTL", "poisson")],
)
def test_all_forms_of_the_data_give_the_same_fit(name, option, loss, data):
    X, y, task, offset = data
    model = asked(name, option)
    if loss != "squared":
        model.set_params(loss=loss)
    given = {"offset": offset} if option in ("offset", "all") else {}
    y = target(loss, y)
    dense = clone(model).fit(X, y, task=task, **given)
    assert dense.converged_
    assert dense.dual_gap_ < 1e-8
    others = [
        clone(model).fit(csr_array(X), y, task=task, **given),
        clone(model).fit(X.astype(np.float32), y, task=task, **given),
    ]
    if loss == "squared" and hasattr(model, "fit_moments"):
        left = y - given.get("offset", 0.0)  # under squared loss an offset is subtracted from y
        others.append(clone(model).fit_moments(Moments().update(X, left, task=task)))
    for other in others:
        np.testing.assert_allclose(other.coef_, dense.coef_, atol=2e-5)
        np.testing.assert_allclose(other.intercept_, dense.intercept_, atol=2e-5)
    if given:
        with pytest.raises(ValueError, match="fitted with an offset: pass offset="):
            dense.predict(X, task=task)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "option"), CASES)
def test_searches_files_and_reports(name, option, data, tmp_path):
    report_html = pytest.importorskip("msmtfl.report").report_html
    X, y, task, offset = data
    model = asked(name, option, search=True)
    given = {"offset": offset} if option in ("offset", "all") else {}
    dense, sparse = (clone(model).fit(Z, y, task=task, **given) for Z in (X, csr_array(X)))
    assert dense.best_point_ == sparse.best_point_
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-6)
    save_model(dense, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X, task=task, **given), dense.predict(X, task=task, **given))
    assert dense.predict_interval(X, task=task, **given).shape == (80, 2)
    assert "<html" in report_html(dense, X=X, y=y, task=task, **given)


@pytest.mark.slow
def test_comparisons_take_a_ridge_offsets_and_intercepts_at_once(data):
    X, y, task, offset = data
    models = {f"{name} {option}": asked(name, option, search=True) for name, option in CASES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compare_models(X, y, task=task, offset=offset, models=models, cv=2, inner_cv=2)
    assert np.isfinite(found.nmse).all()
    assert len(found.models) == len(models) > 25
