"""Categorical columns: one 0/1 column per level, one group per variable, whatever library the table comes from."""

import numpy as np
import pytest
from scipy.sparse import issparse

from msmtfl import (
    L12MTL,
    MSMTFL,
    MSMTFLCV,
    DirtyMTL,
    LassoMTL,
    Moments,
    MSMTFLClassifier,
    MultiTaskAuto,
    PartialPooling,
    SharedMTL,
    bootstrap_intervals,
    compare_models,
    stability_selection,
)
from msmtfl._data.tasks import read_training
from msmtfl.model_files import load_model, save_model

pd = pytest.importorskip("pandas")
N = 240


def table(seed=0):
    """Two categorical variables, a number and a flag, in three schools; only the city and the age matter."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.standard_normal(N),
            "city": pd.Categorical(rng.choice(["rome", "oslo", "bern", "lima"], N)),
            "kind": pd.Categorical(rng.choice(["3", "1", "2"], N)),
            "flag": rng.random(N) < 0.5,
            "school": pd.Categorical(rng.choice(["a", "b", "c"], N)),
        }
    )
    of_city = frame["city"].map({"rome": 1.0, "oslo": -1.0, "bern": 0.0, "lima": 2.0}).astype(float)
    return frame, (frame["age"] + of_city + 0.5 * rng.standard_normal(N)).to_numpy()


def fitted(frame, y, **options):
    return MSMTFL(0.1, 3.0, task_column="school", **options).fit(frame, y)


def by_hand(frame):
    """Dummies of all levels in place of the categorical columns, and the name of every column's variable."""
    parts, names = [], []
    for name in ("age", "city", "kind", "flag"):
        if name in ("city", "kind"):
            parts.append(pd.get_dummies(frame[name], prefix=name, prefix_sep="=").astype(float))
        else:
            parts.append(frame[[name]].astype(float))
        names += [name] * parts[-1].shape[1]
    return pd.concat(parts, axis=1), names


def test_they_are_dummies_of_all_levels_in_one_group():
    frame, y = table()
    model, (dummies, names) = fitted(frame, y), by_hand(frame)
    same = MSMTFL(0.1, 3.0, feature_groups=names).fit(dummies, y, task=frame["school"])
    assert model.features_.tolist() == dummies.columns.tolist()
    assert model.feature_groups_.tolist() == names
    assert model.categories_ == {"city": ["bern", "lima", "oslo", "rome"], "kind": ["1", "2", "3"]}
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_allclose(model.predict(frame), same.predict(dummies, task=frame["school"]), rtol=0, atol=1e-10)
    assert model.dual_gap_ <= 1e-11
    used = model.coef_[:, 1:5]
    assert used.all()
    assert not model.coef_[:, 5:8].any()
    assert model.certificate_.unique  # levels of a variable that is free add up to 0
    np.testing.assert_allclose(used.sum(axis=1), 0.0, atol=1e-12)
    assert model.feature_importances_.shape == (5,)
    assert model.feature_importances_[[1, 2]].tolist() == model.row_norms_[[1, 5]].tolist()


def test_every_library_gives_the_same(tmp_path):
    frame, y = table()
    known = fitted(frame, y)
    forms = {"dict": {name: frame[name] for name in frame}, "extension arrays": {c: frame[c].array for c in frame}}
    pl, pa = (pytest.importorskip(name) for name in ("polars", "pyarrow"))
    forms["polars"] = pl.from_pandas(frame)
    forms["lazy"] = forms["polars"].lazy()
    forms["enum"] = forms["polars"].with_columns(pl.col("city").cast(pl.Enum(["bern", "lima", "oslo", "rome"])))
    forms["pyarrow"] = pa.Table.from_pandas(frame)
    forms["nullable"] = frame.convert_dtypes().astype({"city": "category", "kind": "category", "school": "category"})
    for name, form in forms.items():
        model = fitted(form, y)
        assert np.array_equal(model.coef_, known.coef_), name
        assert model.features_.tolist() == known.features_.tolist()
        np.testing.assert_array_equal(model.predict(form), known.predict(frame))
        np.testing.assert_array_equal(known.predict(form), known.predict(frame))


def test_a_new_category_is_named_or_counts_as_none():
    frame, y = table()
    model = fitted(frame, y)
    as_text = frame.astype({"city": object})
    np.testing.assert_array_equal(model.predict(as_text), model.predict(frame))
    as_text.loc[5, "city"] = "paris"
    with pytest.raises(ValueError, match=r"column 'city' holds 'paris' \(first in row 5\).*known: 'bern', 'lima'"):
        model.predict(as_text)
    model.set_params(unknown_category="baseline")
    i = model.tasks_.tolist().index(frame["school"].iloc[5])
    expected = model.intercept_[i] + model.coef_[i, 0] * frame["age"][5] + model.coef_[i, 8] * frame["flag"][5]
    assert model.predict(as_text)[5] == pytest.approx(expected)
    np.testing.assert_array_equal(np.delete(model.predict(as_text), 5), np.delete(model.predict(frame), 5))
    with pytest.raises(ValueError, match="unknown_category must be"):
        model.set_params(unknown_category="mean").predict(frame)
    with pytest.raises(ValueError, match="unknown_category must be"):
        fitted(frame, y, unknown_category="mean")


def test_levels_that_a_task_lacks_have_no_coefficient_there():
    frame, y = table()
    some = ~((frame["school"] == "b") & (frame["city"] == "lima"))
    frame, y = frame[some].reset_index(drop=True), y[some.to_numpy()]
    for model in (fitted(frame, y), L12MTL(0.1, task_column="school").fit(frame, y)):
        assert model.coef_[1, 2] == 0.0
        assert model.coef_[0, 2] != 0.0
        assert model.dual_gap_ <= 1e-10
    one = frame.assign(city=frame["city"].where(frame["school"] != "c", "oslo"))  # one level only, in school c
    model = fitted(one, y)
    assert not model.coef_[2, 1:5].any()
    assert model.coef_[0, 1:5].all()
    assert model.dual_gap_ <= 1e-10


def test_unused_categories_make_no_column_and_ordered_ones_keep_their_order():
    frame, y = table()
    city = frame["city"].cat.set_categories(["rome", "nowhere", "oslo", "lima", "bern"])
    assert fitted(frame.assign(city=city), y).categories_["city"] == ["bern", "lima", "oslo", "rome"]
    ordered = fitted(frame.assign(city=city.cat.as_ordered()), y)
    assert ordered.categories_["city"] == ["rome", "oslo", "lima", "bern"]
    numbers = frame.assign(kind=pd.Categorical(frame["kind"].astype(int)))
    assert fitted(numbers, y).categories_["kind"] == [1, 2, 3]


def test_many_levels_stay_sparse():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"v{j}": pd.Categorical(rng.integers(50, size=300)) for j in range(4)})
    data = read_training(frame, rng.standard_normal(300), task=np.repeat([0, 1], 150))
    assert issparse(data.X)
    assert data.X.nnz == 4 * 300
    assert data.X.shape[1] == len(data.features) >= 190
    dense = read_training(table()[0], table()[1], task_column="school")
    assert not issparse(dense.X)


@pytest.mark.parametrize(
    "model",
    [
        LassoMTL(0.05),
        L12MTL(0.05),
        MSMTFLCV(cv=2, lams=5),
        DirtyMTL(0.05, 0.1),
        SharedMTL(),
        PartialPooling(k_common=1.0),
        MSMTFLClassifier(0.05),
        MultiTaskAuto(["lasso", "pooled ridge"], cv=2, inner_cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_family_takes_them(model, tmp_path):
    frame, y = table(1)
    y = y > 0 if "Classifier" in type(model).__name__ else y
    model.set_params(task_column="school").fit(frame, y)
    assert model.score(frame, y) > 0.6
    if not isinstance(model, MultiTaskAuto):
        save_model(model, tmp_path / "model.msmtfl")
        again = load_model(tmp_path / "model.msmtfl")
        assert again.categories_ == model.categories_
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_groups_of_variables():
    frame, y = table()
    both = fitted(frame, y, feature_groups={"person": ["age", "kind"]})
    assert both.feature_groups_.tolist() == ["person", *["city"] * 4, *["person"] * 3, "flag"]
    other = fitted(frame, y, feature_groups=["person", "city", "person", "flag"])
    np.testing.assert_array_equal(both.coef_, other.coef_)
    factors = fitted(frame, y, penalty_factors=[1.0, np.inf, 1.0, 1.0])
    assert not factors.coef_[:, 1:5].any()


def test_what_is_made_of_models_knows_them():
    frame, y = table(2)
    search = MSMTFLCV(task_column="school", cv=2, lams=5).fit(frame, y)
    assert search.predict_interval(frame, level=0.9).shape == (N, 2)
    selected = stability_selection(LassoMTL(0.1, task_column="school"), frame, y, n_pairs=3)
    assert selected is not None
    with pytest.warns(UserWarning, match="features linearly dependent"):  # all levels of a variable, without a penalty
        bootstrap_intervals(fitted(frame, y), frame, y, n_boot=40, random_state=0)
    compared = compare_models(frame, y, task_column="school", models=["lasso", "pooled ridge"], cv=2)
    assert compared is not None
    model = fitted(frame, y)
    model.add_task(frame.drop(columns="school")[:80], y[:80], "new")
    assert model.coef_.shape == (4, 9)
    assert model.dual_gap_ <= 1e-10


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_is_refused():
    frame, y = table()
    with pytest.raises(ValueError, match=r"'city' has no category in 2 row\(s\), first in row 3"):
        fitted(frame.assign(city=frame["city"].where(~frame.index.isin([3, 7]))), y)
    with pytest.raises(ValueError, match=r"categorical column\(s\) 'city', 'kind': pass a table"):
        fitted(frame, y).predict(frame.to_numpy())
    with pytest.raises(ValueError, match=r"holds 'rome', which is not a number.*astype\('category'\)"):
        fitted(frame.astype({"city": object}).assign(city="rome"), y)
    with pytest.raises(ValueError, match="there are such already"):
        fitted(frame.assign(**{"city=rome": 1.0}), y)
    with pytest.raises(ValueError, match="'city', 'kind' are categorical: statistics of batches need numbers"):
        Moments.from_batches([(frame.drop(columns="school"), y, frame["school"])])


def test_categories_beside_bounds():
    frame, y = table()
    model = fitted(frame, y, positive=True)
    assert model.coef_.any()
    assert (model.coef_ >= 0.0).all()
    assert model.dual_gap_ <= 1e-10
