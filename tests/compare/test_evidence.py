"""What is concluded from differences: every sentence agrees with the numbers beside it, and data without a difference seldom
yield one."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from msmtfl._paths.validation.too_good import too_good
from msmtfl.compare.auto import choose_family
from msmtfl.compare.comparison import Comparison
from msmtfl.compare.errors import Dropped
from msmtfl.compare.evidence import Evidence, clear_from, clear_tasks, decimals
from msmtfl.compare.run import _clearly_worse

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "studies"
NUMBER = r"[+-]?\d+\.?\d*(?:e[+-]?\d+)?"


def evidence(by_task, se=0.01, base=None, weight=None):
    by_task = np.asarray(by_task, dtype=float)
    base = np.ones(len(by_task)) if base is None else np.asarray(base, dtype=float)
    weight = np.ones(len(by_task)) if weight is None else np.asarray(weight, dtype=float)
    known = np.isfinite(by_task)
    difference = float(np.average(by_task[known], weights=weight[known]))
    tasks = np.array([f"t{i}" for i in range(len(by_task))])
    return Evidence(difference, se, float(np.average(base, weights=weight)), 2 * se, by_task, base, weight, tasks)


# ------------------------------------------------------------------ one difference


def test_a_conclusion_needs_the_total_and_the_tasks():
    clear = evidence([-0.1, -0.2, -0.1, 0.05])
    assert clear.better
    assert clear.standing == "better"
    assert (clear.n_better, clear.n_worse, clear.doubt) == (3, 1, "")
    assert clear.median_change == pytest.approx(-0.1)
    assert evidence([0.1, 0.2, 0.1, -0.05]).worse
    small = evidence([-0.1, -0.2, -0.1, 0.05], se=0.1)
    assert small.standing == "not clear"
    assert "chance" in small.doubt


def test_one_task_alone_does_not_make_a_conclusion():
    """Twenty-nine mine fields: the total is lower, which comes from one of them."""
    rng = np.random.default_rng(0)
    changes = np.append(0.01 + 0.001 * rng.standard_normal(28), -2.0)
    found = evidence(changes, se=0.01)
    assert found.difference < -4 * found.se
    assert found.standing == "not clear"
    assert "in 28 of 29 tasks the error is larger" in found.doubt
    assert found.median_change > 0
    most = evidence([-0.001] * 3 + [0.001] * 2 + [0.002, 0.003, -1.0, -0.001, -0.001], se=0.01)
    assert most.n_better > most.n_worse
    assert not most.clear
    assert most.decisive == 7
    assert most.doubt == "it comes from task 't7', without which it would be +0.00022"


def test_tasks_without_an_error_and_single_tasks():
    found = evidence([np.nan, -0.1, -0.2, -0.1])
    assert (found.n_tasks, found.n_better, found.n_worse) == (3, 3, 0)
    assert found.better
    assert np.isnan(found.without[0])
    assert evidence([-0.1]).better
    assert evidence([-0.3, 0.1]).standing == "not clear"  # one gains, one loses
    assert evidence([-1e-9, -1e-9, -1e-9], se=0.0).standing == "not clear"  # the same solution twice
    assert np.isnan(evidence([-0.1], base=[0.0]).change)


def test_what_rounding_explains_is_no_difference():
    """Targets that are copies of a feature: errors of 1e-28 and 1e-30, the same in every task."""
    rng = np.random.default_rng(0)
    m, n = 4, 30
    cell_task = np.repeat(np.arange(m), n)
    errors = np.stack([1e-28 * rng.uniform(0.5, 1.5, m * n), 1e-30 * rng.uniform(0.5, 1.5, m * n)])
    errors = np.vstack([errors, 1e-9 * rng.uniform(0.5, 1.5, m * n)])
    given = {"cell_weight": np.ones(m * n), "cell_cluster": np.arange(m * n), "unit": np.ones(m), "n_splits": 5}
    labels = np.array([f"t{i}" for i in range(m)])
    result = Comparison(
        ["lasso", "msmtfl", "ridge"],
        "lasso",
        labels,
        errors,
        cell_task,
        **given,
        n_features=np.ones(3),
        seconds=np.ones(3),
    )
    assert result.evidence("msmtfl").standing == "not clear"
    assert (result.evidence("msmtfl").n_better, result.evidence("msmtfl").n_worse) == (0, 0)
    assert not result.gains.any()
    assert "not clearly less than 'lasso'" in result.verdict()
    assert result.evidence("ridge").standing == "worse"  # 1e-9 is beyond what rounding does
    assert result.loses[2].all()
    far = replace(result, rounding=np.full(m, 1e-8))  # of targets whose mean takes most of their digits
    assert far.evidence("ridge").standing == "not clear"


def test_few_samples_need_more_standard_errors():
    np.testing.assert_allclose(clear_from([2, 6, 1000]), [12.706, 2.571, 2.0], atol=1e-3)
    assert clear_from(1) == np.inf


def test_tasks_are_clear_at_a_false_discovery_rate():
    """Of 400 tasks without any difference some 20 intervals exclude 0; few or none are called clear. True ones are."""
    rng = np.random.default_rng(0)
    z = rng.standard_t(49, (20, 400))
    clear = clear_tasks(z, np.ones_like(z), 50)
    assert np.mean(np.abs(z) > clear_from(50)) > 0.03
    assert np.mean(clear.any(axis=1)) < 0.2
    z[:, :40] -= 6.0
    found = clear_tasks(z, np.ones_like(z), 50)
    assert (found[:, :40] == -1).mean() > 0.95
    assert (found[:, 40:] != 0).sum() < 0.07 * (found != 0).sum()
    one = clear_tasks(np.array([-2.5, np.nan, 0.0, 5.0]), np.array([1.0, 1.0, 0.0, np.nan]), np.array([50, 50, 50, 50]))
    assert one.tolist() == [-1, 0, 0, 0]


def test_decimals_show_two_digits_of_the_smallest_standard_error():
    assert [decimals(se) for se in (0.2, 0.012, 0.0034, 0.00012, 1e-12, 0.0, np.nan)] == [3, 3, 4, 5, 6, 3, 3]


# ------------------------------------------------------------------ sentences, over many random comparisons


def random_comparison(seed):
    """Any sizes of tasks, differences from none to plain, errors from tiny to large, models screened out or not."""
    rng = np.random.default_rng(seed)
    m, models = int(rng.integers(1, 9)), int(rng.integers(2, 6))
    n = rng.integers(1, 30, m)
    task = np.repeat(np.arange(m), n)
    size = 10.0 ** rng.uniform(-3, 1)
    lead = rng.choice([0.0, 0.02, 0.3, 3.0]) * size * rng.standard_normal((models, m))
    common = size * rng.chisquare(1, len(task))
    errors = np.abs(common + lead[:, task] + rng.choice([0.01, 0.3]) * size * rng.standard_normal((models, len(task))))
    errors[:, task == 0] *= rng.choice([1.0, 30.0])  # one task may make the total
    names = [f"model {k}" for k in range(models)]
    unit = np.where(rng.random(m) < 0.1, 0.0, rng.uniform(0.5, 2.0, m))
    unit[-1] = 1.0
    found = Comparison(
        models=names,
        reference=names[int(rng.integers(models))],
        tasks=np.array([f"t{i}" for i in range(m)]),
        errors=errors,
        cell_task=task,
        cell_weight=np.ones(len(task)),
        cell_cluster=np.arange(len(task)) if rng.random() < 0.7 else np.arange(len(task)) // 3,
        unit=unit,
        n_features=rng.integers(1, 9, models).astype(float),
        seconds=np.ones(models),
        n_splits=5,
        held_per_trained=1.25,
    )
    screened = _clearly_worse(found, int(rng.integers(1, 4)))
    kept = [k for k, name in enumerate(names) if name not in screened]
    return found, replace(
        found,
        models=[names[k] for k in kept],
        errors=errors[kept] if rng.random() < 0.5 else errors[kept] * rng.uniform(0.8, 1.2),  # other folds follow
        n_features=found.n_features[kept],
        seconds=found.seconds[kept],
        screened=screened,
    )


def test_every_verdict_agrees_with_the_numbers_that_it_prints():
    seen = set()
    for seed in range(100):
        _, found = random_comparison(seed)
        text = found.verdict()
        best = re.match(rf"'([^']+)' has the smallest nMSE, ({NUMBER})[:.]", text)
        errors = dict(zip(found.models, found.error, strict=True))
        assert best[1] == min(errors, key=errors.get)
        assert float(best[2]) == pytest.approx(errors[best[1]], abs=6e-4)
        said = re.search(
            rf"(clearly|not clearly) (less than|worse)(?: '([^']+)',|:) ({NUMBER}) or ({NUMBER})% \(s\.e\. ({NUMBER})\)"
            r"(, but [^.]*)?",
            text,
        )
        clearly, difference, share, se = said[1] == "clearly", float(said[4]), float(said[5]), float(said[6])
        if best[1] == found.reference:
            rival, than = re.search(r"The next, '([^']+)', is", text)[1], found.reference
            assert errors[rival] == min(value for name, value in errors.items() if name != best[1])
            assert difference >= 0
        else:
            rival, than = best[1], said[3]
            assert than == found.reference
            assert difference <= 0
        of_task = found.error_by_task[[found.models.index(name) for name in (rival, than)]]
        more, less = np.sum(of_task[0] > of_task[1]), np.sum(of_task[0] < of_task[1])
        step = 10.0 ** -decimals(found.se)
        assert difference == pytest.approx(errors[rival] - errors[than], abs=step)
        assert share == pytest.approx(100 * difference / errors[than], abs=0.1 + 100 * step / errors[than])
        if clearly:  # two standard errors at least, most tasks, and not by one of them
            assert abs(difference) > 2 * se - 3 * step
            assert more > less if difference > 0 else less > more
            weight = np.bincount(found.cell_task, minlength=len(found.tasks)) * (found.unit > 0)
            for i in np.flatnonzero(weight) if (weight > 0).sum() > 2 else []:
                rest = np.delete(np.nan_to_num(of_task[0] - of_task[1]), i) @ np.delete(weight, i)
                assert np.sign(rest) == np.sign(difference)
            assert said[7] is None
        elif said[7] is None:  # the numbers alone say that it is not clear
            spread = clear_from(found.n_clusters) * se if found.n_clusters > 1 else np.inf
            assert abs(difference) <= spread + 3 * step
        if "Of " in text and best[1] != found.reference:
            counts = re.search(r"Of (\d+) tasks (\d+) have a smaller error by it and (\d+) a larger one", text)
            assert [int(part) for part in counts.groups()] == [np.isfinite(of_task[0]).sum(), less, more]
            near = re.search(rf"Not clearly worse than '{best[1]}': ([^.]*)\.", text)
            paired = replace(found, reference=best[1])
            for name in set(found.models) - {best[1], found.reference}:
                listed = near is not None and f"'{name}'" in near[1]
                assert listed != paired.evidence(name).worse
                k = found.models.index(name)
                assert listed or paired.difference[k] > 2 * paired.se[k]
        seen.add((clearly, said[7] is None, best[1] == found.reference))
    assert len(seen) == 6  # clear, unclear by size, unclear by tasks; each for the reference and for another


def test_every_reason_of_a_choice_agrees_with_the_numbers_that_it_prints():
    seen = set()
    for seed in range(100):
        first, found = random_comparison(seed)
        chosen, reason = choose_family(found)
        used = found.steadied if "variances of small tasks" in reason else found
        errors = dict(zip(used.models, used.error, strict=True))
        best, count, total, error = re.match(
            r"'([^']+)' has the smallest held-out nMSE(?: \([^)]*\))? of (\d+) models"
            rf"(?: tried on all folds, of (\d+))?: ({NUMBER})",
            reason,
        ).groups()
        assert best == min(errors, key=errors.get)
        assert int(count) == len(found.models)
        assert int(total or count) == len(found.models) + len(found.screened)
        other, shown, more, se = re.search(
            rf"'([^']+)' with ({NUMBER}) \(({NUMBER}), s\.e\. ({NUMBER})\)", reason
        ).groups()
        step = 2 * 10.0 ** -decimals(replace(used, reference=best).se)
        assert float(shown) - float(error) == pytest.approx(float(more), abs=step)
        assert float(more) >= 0
        if chosen == best:
            clear = " is clearly worse." in reason
            assert clear or " is not clearly worse." in reason
            assert not clear or float(more) > 2 * float(se) - step
        else:
            assert other == chosen
            assert float(more) <= float(se) + step
            few, many = re.search(rf"uses ({NUMBER}) features where that uses ({NUMBER})", reason).groups()
            assert float(few) < float(many)
        for name, one in found.screened.items():  # against the best on the same rows
            place = rf"'{name}' \(({NUMBER}) on (?:the first fold|\d folds)"
            words = rf"{place}, where '([^']+)' had ({NUMBER}): ({NUMBER}), s\.e\. ({NUMBER})\)"
            mine, rival, theirs, less, se = re.search(words, reason).groups()
            assert rival == first.best
            assert float(mine) > float(theirs)
            assert float(mine) - float(theirs) == pytest.approx(float(less), abs=2 * 10.0 ** -decimals(one.se))
            assert float(less) > 2 * float(se) - 10.0 ** -decimals(one.se)
        seen.add((chosen == best, bool(found.screened)))
    assert len(seen) == 4


def test_a_model_screened_out_is_never_compared_with_errors_of_other_rows():
    """'pooled ridge' had 0.536 on the first fold, the winner 0.539 on all: that is no comparison."""
    found = replace(
        random_comparison(0)[1], screened={"pooled ridge": Dropped(0.536, "shared", 0.481, 0.055, 0.018, folds=1)}
    )
    said = "'pooled ridge' (0.536 on the first fold, where 'shared' had 0.481: +0.055, s.e. 0.018)"
    assert said in found.verdict()
    assert said in choose_family(found)[1]
    assert found.dropped == {"pooled ridge": 0.536}


def test_what_is_too_good_is_named():
    assert too_good([], np.array([]), "nMSE") == ""
    assert "task(s) 'p7' are predicted with an error (nMSE) of at most 6e-09" in too_good(
        ["p7"], np.array([6e-9]), "nMSE"
    )


# ------------------------------------------------------------------ data without a difference


@pytest.mark.slow
@pytest.mark.skipif(not BENCHMARKS.exists(), reason="no benchmarks beside the tests")
def test_models_that_are_equally_good_seldom_get_a_clear_verdict(monkeypatch):
    """Sixty data sets, each predicted from features of either kind: two standard errors over rows are too few."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import null_comparisons

    found = null_comparisons.rates(null_comparisons.Kind(10, 20, 3, 2), 60)
    assert found["rows"] > 0.05  # what verdicts must not go by
    assert found["vary"] > 1.1
    assert max(found["printed"], found["clear"], found["verdict"]) <= 0.05
