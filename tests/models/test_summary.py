"""Summaries: the numbers are those of the coefficients, in every form, and names from data are shown as they are."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from msmtfl import (
    MSMTFL,
    DirtyMTL,
    LassoMTL,
    LassoMTLCV,
    MSMTFLClassifier,
    MultiTaskAuto,
    PartialPooling,
    SharedMTL,
)
from msmtfl.baselines import RidgePerTaskCV
from msmtfl.model_files import load_model, save_model

NAMES = ["age", "b_mi*", "<b>$x|y", "c^d~e", "\x1b[2J", "same"]


def data() -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((90, 6)), columns=NAMES)
    table["same"] = 3.0
    task = np.repeat(["north", "south", "west"], 30)
    y = 2.0 * table["age"] - table["<b>$x|y"] + (task == "west") * table["b_mi*"] + 0.1 * rng.standard_normal(90)
    return table, y.to_numpy(), task


@pytest.mark.parametrize(
    "model",
    [MSMTFL(0.1), LassoMTL(0.1), DirtyMTL(), SharedMTL(), PartialPooling(), RidgePerTaskCV()],
    ids=lambda model: type(model).__name__,
)
def test_numbers_are_those_of_the_coefficients(model):
    table, y, task = data()
    model = model.fit(table, y, task=task)
    frame = model.summary().to_frame().set_index("feature")
    assert sorted(frame.index) == sorted(NAMES)
    for name, w in zip(model.features_, model.coef_.T, strict=True):
        own = w[w != 0.0]
        line = frame.loc[name]
        assert line["n_tasks"] == len(own)
        expected = [own.min(), np.median(own), own.max()] if own.size else [np.nan] * 3
        np.testing.assert_array_equal(line[["smallest", "median", "largest"]].to_numpy(dtype=float), expected)
    assert frame["n_tasks"].is_monotonic_decreasing


def test_the_text_says_how_it_was_fitted_and_what_is_proven():
    table, y, task = data()
    model = LassoMTLCV(lams=4, cv=3).fit(table, y, task=task)
    text = str(model.summary())
    assert text.splitlines()[0] == "LassoMTLCV: 3 tasks, 90 samples, 6 features"
    assert "λ Σⱼ" in text
    assert f"lam = {model.lam_:.4g}" in text
    assert f"3 folds; neg_nmse = {model.cross_fitted_score_:.4g}" in text
    assert f"relative duality gap {model.dual_gap_:.1e}" in text
    assert "no standard errors" in text
    assert "their zeros say nothing: 1" in text
    bic = LassoMTLCV(lams=4, selection="bic").fit(table, y, task=task).summary()
    assert "The parameters were chosen by the criterion bic." in bic.notes
    assert max(map(len, text.splitlines()[3:])) <= 100


def test_what_is_not_shown_is_counted():
    table, y, task = data()
    model = MSMTFL(0.1).fit(table, y, task=task)
    used = int((model.coef_ != 0).any(axis=0).sum())
    short = model.summary(max_features=1)
    assert f"{used - 1} features not shown here" in str(short)
    assert f"The coefficient of {6 - used} features is 0 in every task." in str(short)
    assert len(short.to_frame()) == 6
    assert "not shown" not in str(model.summary())
    with pytest.raises(ValueError, match="max_features must be at least 1, got 0"):
        model.summary(max_features=0)


def test_a_single_task_has_one_coefficient_per_feature():
    table, y, _ = data()
    model = LassoMTL(0.1).fit(table.drop(columns="same"), y)
    text = model.summary().as_text()
    assert re.search(rf"^age +{model.coef_[0]:.4g}$", text, flags=re.MULTILINE)
    assert "smallest" not in text
    assert "in every task" not in text


def test_classes_have_lines_of_their_own():
    table, y, task = data()
    model = MSMTFLClassifier(0.1).fit(table, np.array(["few", "some", "many"])[np.digitize(y, [-1, 1])], task=task)
    frame = model.summary().to_frame().set_index(["feature", "class"])
    assert len(frame) == 18
    j = model.features_.tolist().index("age")
    for k, name in enumerate(model.classes_):
        own = model.coef_[:, k, j]
        assert frame.loc[("age", name), "n_tasks"] == np.count_nonzero(own)
        assert not own.any() or frame.loc[("age", name), "largest"] == own[own != 0.0].max()
    assert "pairs of a feature and a class" in str(model.summary(max_features=1))


def test_names_have_no_meaning_in_latex_markdown_and_terminals():
    table, y, task = data()
    found = PartialPooling().fit(table, y, task=task).summary()
    assert "\x1b" not in found.as_text() + found.as_latex() + found.as_markdown()
    latex = found.as_latex()
    assert r"b\_mi* &" in latex
    assert r"\textless{}b\textgreater{}\$x\textbar{}y &" in latex
    assert r"c\textasciicircum{}d\textasciitilde{}e &" in latex
    rows = re.findall(r"^.* \\\\$", latex, flags=re.MULTILINE)
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {4}
    assert len(rows) == 6
    markdown = found._repr_markdown_()
    assert r"| b\_mi\* |" in markdown
    assert r"| &lt;b&gt;\$x\|y |" in markdown
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    assert len(lines) == 7


def test_of_a_file_and_of_a_model_that_is_not_fitted(tmp_path):
    table, y, task = data()
    model = MSMTFL(0.1).fit(table, y, task=task)
    save_model(model, tmp_path / "model.msmtfl")
    assert str(load_model(tmp_path / "model.msmtfl").summary()) == str(model.summary())
    with pytest.raises(NotFittedError):
        MSMTFL().summary()


@pytest.mark.slow
def test_of_a_choice_among_models_that_of_the_chosen_one():
    table, y, task = data()
    auto = MultiTaskAuto(random_state=0).fit(table, y, task=task)
    assert str(auto.summary()) == str(auto.best_estimator_.summary())
