"""`msmtfl compare` and `msmtfl surface`: which model, and what all parameters give."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .._objective.losses import is_loss, loss_named
from . import options as o
from .inputs.data import InputError, pandas
from .inputs.table_files import check_ending, plain_rows, records, table_bytes
from .pictures import check_picture, picture

COMPARE = """\b
Examples:
  msmtfl compare scores.csv --target score --task school
  msmtfl compare scores.csv -y score -t school --models lasso,bi-level --out by_task.csv --plot models.png
  msmtfl compare visits.csv -y relapse -t hospital --classify
  msmtfl compare cases.csv -y cases -t town --loss poisson --exposure years
  msmtfl compare folder_of_parquet/ -y score -t school --sample 0.1"""
SURFACE = """\b
Example:
  msmtfl surface scores.csv --target score --task school --out surface.csv"""


def compare(
    data: o.Data,
    task: o.Task,
    target: o.MaybeTarget = None,
    models: Annotated[
        str,
        typer.Option(
            "--models",
            help="a,b,c of lasso (one per task), l12, dirty, msmtfl (the paper's), bi-level, shared, ridge-per-task, "
            "pooled-lasso, pooled-ridge; or all. `msmtfl fit --model` has the same names.",
        ),
    ] = "all",
    classify: Annotated[
        bool, typer.Option("--classify", help="The target holds classes: compare classifiers, by log-loss and AUC.")
    ] = False,
    loss: Annotated[
        str,
        typer.Option(
            "--loss",
            help="squared, poisson, gamma, tweedie, huber or cox: of all models, and what errors are (relative deviances).",
        ),
    ] = "squared",
    times: o.Time = None,
    event: o.Event = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    weight: o.Weight = None,
    offset: o.Offset = None,
    exposure: o.Exposure = None,
    group: o.Group = None,
    group_identical: o.GroupIdentical = False,
    id: o.Id = None,
    one_hot: o.OneHot = False,
    missing_level: o.MissingLevel = False,
    min_rows: o.MinRows = None,
    drop_missing: o.DropMissing = False,
    impute: o.Impute = None,
    standardize: o.Standardize = True,
    intercepts: o.Intercepts = "task",
    screen: Annotated[
        bool, typer.Option("--screen", help="Drop models that are clearly worse on the first folds: faster.")
    ] = False,
    leave_one_task_out: Annotated[
        bool,
        typer.Option("--leave-one-task-out", help="Also the error for a new task: each is left out of a fit in turn."),
    ] = False,
    sample: Annotated[
        float | None,
        typer.Option("--sample", help="Compare on a random share of the rows, e.g. 0.1: for tables beyond memory."),
    ] = None,
    cv: o.Folds = 5,
    nested: o.Nested = False,
    seed: o.Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="One row per model and task: CSV, Parquet or JSON.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Picture: .png, .svg or .pdf.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="HTML report to write.")] = None,
    formulas: o.Formulas = False,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    jobs: o.Jobs = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Did sharing help, and for whom? All models on the same held-out rows, which have no part in choosing parameters."""
    with o.guard("compare", quiet):
        from ..compare.comparison import OF_NEW_DATA
        from ..compare.run import compare_models
        from .inputs.streaming import too_large
        from .inputs.training import read_training, target_of, warn_of_classes, warn_of_exposure

        column, survival = target_of(loss, target, times, event)
        o.check_outputs((out, plot, report), *data)
        check_ending(out)
        check_picture(plot)
        if report is not None:
            from ..report import write_report  # now: what it needs may be absent
        if sample is not None and not 0.0 < sample <= 1.0:
            raise InputError(f"--sample must lie between 0 and 1, got {sample:g}: 0.1 for a tenth of the rows.")
        why = "" if sample is not None else too_large(data, None)
        if why:
            raise InputError(
                f"{why}, and comparing models needs the rows themselves. Compare them on a share: --sample 0.1. (msmtfl fit "
                "reads such tables in batches.)"
            )
        training = read_training(
            data,
            target=column,
            event=event,
            sample=sample,
            seed=seed,
            task=task,
            features=features,
            exclude=exclude,
            weight=weight,
            offset=offset,
            exposure=exposure,
            group=group,
            group_identical=group_identical,
            id=id,
            one_hot=one_hot,
            missing_level=missing_level,
            min_rows=min_rows,
            drop_missing=drop_missing,
            impute=impute,
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            quiet=quiet,
            classes=classify,
        )
        known = loss_named(loss) if is_loss(loss) else loss_named("squared")  # what is none, compare_models refuses
        if not (classify or survival) and known.least < 0.0:
            warn_of_classes(training.y, column)
        warn_of_exposure(exposure, survival or (not classify and known.linear))
        result = compare_models(
            training.X,
            training.y,
            task_column=task,
            models=None if models == "all" else o.listed(models),
            classify=classify,
            cv=cv,
            standardize=standardize,
            intercepts=intercepts,
            screen=screen,
            random_state=seed,
            n_jobs=jobs,
            verbose=o.talks(quiet, as_json),
            nested=nested,
            leave_one_task_out=leave_one_task_out,
            loss=loss,
            **training.fit_arguments(groups=True),
        )
        if out is not None:
            o.save(out, table_bytes(result.to_frame().reset_index(drop=True), out, formulas))
        if plot is not None:
            o.save(plot, picture(result.plot(), plot))
        if report is not None:
            with o.writing(report):
                names = {name: training.report_arguments()[name] for name in ("target", "task_name")}
                write_report(result, report, **names)
        if as_json:
            rows = plain_rows(result.summary())
            said = {
                "measure": result.measure.column,
                "reference": result.reference,
                "models": rows,
                "best": result.best,
                "way": result.way,
                "corrected": _corrected(result),
                "means": _over_means(result),
                "verdict": result.verdict(),
                "se": OF_NEW_DATA,
                "too_good": [str(label) for label in result.tasks[result.perfect].tolist()],
                "dropped": {name: asdict(one) for name, one in result.screened.items()},
            }
            o.emit(json.dumps(said, indent=1) + "\n", data=True)
        elif not quiet:
            o.emit(f"{result}\n")


def _corrected(result: Any) -> dict[str, Any] | None:
    """Errors corrected for having chosen: of the best model, and of each."""
    if result.corrected is None:
        return None
    by_model = dict(zip(result.models, result.corrected.by_model.tolist(), strict=True))
    return {"best": result.corrected.best, "by_model": by_model, "draws": result.corrected.draws}


def _over_means(result: Any) -> dict[str, Any]:
    """The best model compared with predicting the tasks' means, or class frequencies."""
    found = result.over_means()
    figures = {result.measure.column: found.base, "difference": found.difference, "se": found.se}
    return {"predicts": result.measure.nothing, **figures, "a_model_is_clearly_better": not result.means_in_words()}


def surface(
    data: o.Data,
    target: o.Target,
    task: o.Task,
    lams: Annotated[int, typer.Option("--lams", min=1, help="How many values of lam.")] = 50,
    ratios: Annotated[
        str | None,
        typer.Option("--theta-ratios", help="theta in units of m lam / rho_bar: 1,4,16,inf. Default: seven."),
    ] = None,
    features: o.Features = None,
    exclude: o.Exclude = None,
    weight: o.Weight = None,
    offset: o.Offset = None,
    exposure: o.Exposure = None,
    id: o.Id = None,
    one_hot: o.OneHot = False,
    missing_level: o.MissingLevel = False,
    min_rows: o.MinRows = None,
    drop_missing: o.DropMissing = False,
    impute: o.Impute = None,
    standardize: o.Standardize = True,
    intercept: o.Intercept = True,
    intercepts: o.Intercepts = "task",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="One row per point: CSV, Parquet or JSON. Default, and -: CSV on stdout."),
    ] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    jobs: o.Jobs = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Solve MSMTFL on the whole grid of lam and theta: objective, certificate and support at every point."""
    with o.guard("surface", quiet):
        from .._paths.solve import regularization_surface
        from .inputs.training import read_training, warn_of_exposure

        out = o.file_or_stdout(out)
        o.check_outputs((out,), *data)
        check_ending(out)
        training = read_training(
            data,
            target=target,
            task=task,
            features=features,
            exclude=exclude,
            weight=weight,
            offset=offset,
            exposure=exposure,
            group=None,
            id=id,
            one_hot=one_hot,
            missing_level=missing_level,
            min_rows=min_rows,
            drop_missing=drop_missing,
            impute=impute,
            delimiter=delimiter,
            encoding=encoding,
            decimal=decimal,
            quiet=quiet,
        )
        warn_of_exposure(exposure, linear=True)
        found = regularization_surface(
            training.X,
            training.y,
            task_column=task,
            lams=lams,
            theta_ratios=None if ratios is None else _numbers(ratios),
            standardize=standardize,
            fit_intercept=intercept,
            intercepts=intercepts,
            n_jobs=jobs,
            verbose=o.talks(quiet, as_json),
            **training.fit_arguments(groups=False),
        )
        frame = pandas().DataFrame(found.to_dict())
        if out is not None:
            o.save(out, table_bytes(frame, out))
        if as_json:
            o.emit(records(frame) + "\n", data=True)
        elif out is None:
            o.emit(frame.to_csv(index=False), data=True)
        elif not quiet:
            o.emit(_summary(found, frame, out) + "\n")


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in o.listed(text)]
    except ValueError:
        raise InputError(f"--theta-ratios must be numbers, 1,4,16,inf; got {text!r}.") from None


def _summary(found: Any, frame: Any, out: Path) -> str:
    shape = found.thetas.shape
    gap = float(np.max(frame["dual_gap"]))
    return (
        f"{shape[0]} lams x {shape[1]} thetas, {len(found.tasks)} tasks, {len(found.features)} features; converged at "
        f"{int(frame['converged'].sum())} of {len(frame)} points, largest relative duality gap {gap:.1e}.\n{out}"
    )
