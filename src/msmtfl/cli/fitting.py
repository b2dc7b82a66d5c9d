"""`msmtfl fit`: from a table to a model file and a report."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .._data.tables import choices_of, known_as
from .._estimators.families import Family, Variant, named_variants
from .._objective.losses import loss_named
from .._runtime.started import BEGAN
from ..compare.auto import AUTOMATIC
from . import options as o
from .inputs.data import InputError

EXAMPLES = """\b
Examples:
  msmtfl fit scores.csv --target score --task school --out model.msmtfl --report page.html
  msmtfl fit scores.parquet -y score -t school --group pupil
  msmtfl fit scores.csv.gz -y score -t school --model lasso --lam 0.1 --json
  msmtfl fit scores.csv -y score -t school --model auto --out model.msmtfl   # the family that suits the data
  msmtfl fit visits.csv -y relapse -t hospital --model l12 --classify --out model.msmtfl
  msmtfl fit visits.csv -y relapse -t hospital --model auto-classifier --out model.msmtfl"""
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Model file to write (.msmtfl, or .json).")]
Report = Annotated[Path | None, typer.Option("--report", help="HTML report to write.")]


def _models_in_help() -> str:
    variants = [variant for _, variant in named_variants(AUTOMATIC).values()]
    names = [without_blanks(one.name) + (f" ({one.note})" if one.note else "") for one in variants]
    return f"{', '.join(names)}."


def without_blanks(name: str) -> str:
    """The name of a model as it is typed most easily."""
    return name.replace(" ", "-")


def fit(
    data: o.Data,
    task: o.Task,
    target: o.MaybeTarget = None,
    model: Annotated[str, typer.Option("--model", "-m", help=_models_in_help())] = "bi-level",
    lam: Annotated[
        float | None,
        typer.Option(
            "--lam",
            help="Strength of the penalty: the larger, the fewer features. Without any: all by cross-validation.",
        ),
    ] = None,
    theta: Annotated[
        str | None,
        typer.Option(
            "--theta",
            help="Sum of |coefficients| over tasks from which a feature is free of the penalty; adaptive or inf.",
        ),
    ] = None,
    lam_entry: Annotated[
        float | None, typer.Option("--lam-entry", help="bi-level: strength of a penalty on every entry by itself.")
    ] = None,
    theta_entry: Annotated[
        float | None, typer.Option("--theta-entry", help="bi-level: size from which an entry is free of it.")
    ] = None,
    penalty: Annotated[
        str | None,
        typer.Option(
            "--penalty", help="bi-level, msmtfl, l12: capped, mcp, scad, log or lq in place of min(t, theta)."
        ),
    ] = None,
    lam_s: Annotated[float | None, typer.Option("--lam-s", help="dirty: strength for specific coefficients.")] = None,
    lam_b: Annotated[float | None, typer.Option("--lam-b", help="dirty: strength for shared coefficients.")] = None,
    lam_common: Annotated[
        float | None,
        typer.Option("--lam-common", help="shared: strength for common values; pretrained: of the first step."),
    ] = None,
    lam_deviation: Annotated[
        float | None, typer.Option("--lam-deviation", help="shared: strength for deviations from them.")
    ] = None,
    k: Annotated[
        float | None, typer.Option("--k", help="partial-pooling: strength for deviations from common values.")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            help="pretrained: from 0 (start from the lasso of all tasks) to 1 (separate lassos).", show_default=False
        ),
    ] = None,
    k_common: Annotated[
        float | None, typer.Option("--k-common", help="partial-pooling: strength for common values.")
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            help="squared, poisson (counts), gamma (amounts > 0), tweedie or 'tweedie(1.7)' (amounts, many of them 0), "
            "huber (outliers) or cox (times until an event: --time, --event).",
        ),
    ] = None,
    l1_ratio: Annotated[
        str | None,
        typer.Option(
            "--l1-ratio",
            help="Share of the penalty that is not a ridge, 0 to 1 (default: 1, no ridge); a,b,c: the best of these.",
        ),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help="classifier: every class of a task weighs the same.")
    ] = False,
    classify: Annotated[
        bool, typer.Option("--classify", help="The target holds classes: the classifier of that model.")
    ] = False,
    multinomial: Annotated[
        bool,
        typer.Option("--multinomial", help="With --classify: all classes in one loss, not each against the rest."),
    ] = False,
    selection: Annotated[
        str | None,
        typer.Option(
            "--selection",
            help="min, 1se (simplest within a standard error; of auto the default), aic, bic or ebic.",
        ),
    ] = None,
    relax: Annotated[bool, typer.Option("--relax", help="Refit the features found by least squares.")] = False,
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
    one_hot_groups: o.OneHotGroups = False,
    groups: o.Groups = None,
    positive: o.Positive = False,
    bounds: o.Bounds = None,
    min_rows: o.MinRows = None,
    drop_missing: o.DropMissing = False,
    impute: o.Impute = None,
    standardize: o.Standardize = True,
    intercept: o.Intercept = True,
    intercepts: o.Intercepts = "task",
    cv: o.MaybeFolds = None,
    nested: o.Nested = False,
    seed: o.MaybeSeed = None,
    out: Out = None,
    report: Report = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    stream: o.Stream = False,
    jobs: o.Jobs = None,
    as_json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit a model to a table with a task column; parameters by cross-validation unless given.

    Columns are standardised unless --no-standardize says otherwise; coefficients stay in the table's units.
    """
    with o.guard("fit", quiet):
        from ..model_files import save_model
        from .describing import describe, facts
        from .inputs.streaming import Streamed, read_statistics, refuse_streaming, too_large
        from .inputs.training import Training, read_training, target_of, warn_of_classes, warn_of_exposure
        from .inputs.variables import said_of_columns

        column, survival = target_of(loss or "squared", target, times, event)
        given = {"lam": lam, "theta": theta, "lam_s": lam_s, "lam_b": lam_b}
        given |= {"lam_common": lam_common, "lam_deviation": lam_deviation}
        given |= {"lam_entry": lam_entry, "theta_entry": theta_entry, "k": k, "k_common": k_common}
        given |= {"alpha": alpha}
        family, variant = _family(model, classify)
        selection = selection or _usual_selection(family)
        common = {
            "task_column": task,
            "standardize": standardize,
            "fit_intercept": intercept,
            "intercepts": intercepts,
            "relax": relax,
            "n_jobs": jobs,
        }
        folds, deals = 5 if cv is None else cv, 0 if seed is None else seed
        search = {"cv": folds, "selection": selection, "random_state": deals, "verbose": o.talks(quiet, as_json)}
        extra: dict[str, Any] = {"loss": loss, "class_weight": "balanced" if balanced else None, "penalty": penalty}
        extra["nested"], extra["multinomial"] = nested or None, multinomial or None
        extra["l1_ratio"] = _l1_ratio(l1_ratio)
        estimator = _estimator(
            family, variant, given, common, search, {k: v for k, v in extra.items() if v is not None}
        )
        searches = family.is_search(estimator)
        folded = {"group": group, "group_identical": group_identical, "cv": cv, "seed": seed}
        if not searches:
            _refuse("with given parameters", selection=selection != "min", **folded)
        elif selection not in ("min", "1se"):
            _refuse(f"with --selection {selection}", **folded)
        o.check_outputs((out, report), *data)
        if report is not None:
            from ..report import write_report  # now: what it needs may be absent
        reading: dict[str, Any] = {
            "target": column,
            "task": task,
            "features": features,
            "exclude": exclude,
            "weight": weight,
        }
        reading |= {"group": group, "id": id, "min_rows": min_rows}
        only_rows: dict[str, Any] = {
            "event": event,
            "group_identical": group_identical,
            "offset": offset,
            "exposure": exposure,
            "one_hot": one_hot,
        }
        only_rows |= {"missing_level": missing_level, "drop_missing": drop_missing, "impute": impute}
        why = "--stream" if stream else too_large(data, None if features is None else o.listed(features))
        training: Training | Streamed
        if why:
            refuse_streaming(why, estimator, **only_rows)
            if not quiet and not stream:
                o.tell(f"{why}: rows are read in batches.")
            verbose = o.talks(quiet, as_json)
            folded_in = folds if searches and selection in ("min", "1se") else None
            training = read_statistics(data, **reading, folds=folded_in, seed=deals, quiet=quiet, verbose=verbose)
        else:
            how: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
            training = read_training(data, **reading, **only_rows, **how, quiet=quiet, classes=family.classifies)
            if not (family.classifies or survival) and (loss is None or loss_named(loss).least < 0.0):
                warn_of_classes(training.y, column)
            warn_of_exposure(exposure, survival or (not family.classifies and loss_named(loss or "squared").linear))
        said: dict[str, Any] = {
            "positive": positive,
            "bounds": bounds,
            "groups": groups or [],
            "one_hot_groups": one_hot_groups,
        }
        estimator.set_params(**said_of_columns(estimator, training.columns, **said))
        began = time.perf_counter()
        training.fit(estimator, searches)
        seconds = time.perf_counter() - began
        command = shlex.join(["msmtfl", *sys.argv[1:]])
        provenance = training.provenance(command)
        if out is not None:
            with o.writing(out):
                save_model(estimator, out, provenance=provenance)
        if report is not None:
            with o.writing(report):
                write_report(estimator, report, command=command, **training.report_arguments())
        written = {name: str(path) for name, path in (("model_file", out), ("report", report)) if path is not None}
        if as_json:
            o.emit(json.dumps(facts(estimator) | {"seconds": round(seconds, 3)} | written, indent=1) + "\n", data=True)
        elif not quiet:
            files = "; ".join(f"{name.replace('_', ' ')}: {path}" for name, path in written.items())
            nothing = "Nothing was written: give --out MODEL or --report PAGE."
            took = f"{seconds:.1f} s for the fit, {time.perf_counter() - BEGAN:.1f} s in all"
            o.emit(f"{describe(estimator)}\n\n{took}. {files or nothing}\n")


def _refuse(why: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(f"--{name.replace('_', '-')} is about cross-validation: {why} there is none.")


def _family(name: str, classify: bool = False) -> tuple[Family, Variant]:
    known = named_variants(AUTOMATIC, classify)
    found = known_as(name, known)
    if found is None:
        raise InputError(f"--model: no model {name!r}. Known: {choices_of(name, map(without_blanks, known))}.")
    return known[found]


def _usual_selection(family: Family) -> str:
    """How a search chooses unless it is told."""
    known = inspect.signature(family.search).parameters
    return str(known["selection"].default) if "selection" in known else "min"


def _estimator(
    family: Family,
    variant: Variant,
    given: dict[str, Any],
    common: dict[str, Any],
    search: dict[str, Any],
    extra: dict[str, Any],
) -> Any:
    """The estimator asked for: with the parameters given, or one that searches for them."""
    name, names = variant.name, family.takes(variant)
    values = {key: value for key, value in given.items() if value is not None}
    foreign = [f"--{key.replace('_', '-')}" for key in values if key not in names]
    if foreign:
        raise InputError(f"{', '.join(foreign)}: not a parameter of {name}, which has {', '.join(names) or 'none'}.")
    kind: Any = family.fit if values else family.search
    unknown = [key for key in extra if key not in kind._get_param_names()]
    if unknown:
        options = {"loss": "--loss", "class_weight": "--balanced", "penalty": "--penalty", "nested": "--nested"}
        option = (options | {"l1_ratio": "--l1-ratio", "multinomial": "--multinomial"})[unknown[0]]
        raise InputError(f"{option}: not for {name}.")
    if not values:
        both = {"inner_cv": search["cv"]} if "inner_cv" in kind._get_param_names() else {}
        return _of_options(name, kind, common | search | both | dict(variant.options) | extra)
    if "theta_entry" in values and "lam_entry" not in values:
        raise InputError("--theta-entry caps the penalty of --lam-entry: give that too.")
    if "theta" in values:
        values["theta"] = _theta(values["theta"])  # the model says where a word will not do
    return _of_options(name, kind, common | values | extra)


def _of_options(name: str, model: Any, options: dict[str, Any]) -> Any:
    """A model with these options; those that it does not have must be left as they are by default."""
    known = model._get_param_names()
    usual = {"relax": False, "fit_intercept": True, "selection": "min", "intercepts": "task"}
    given = {"relax": "--relax", "fit_intercept": "--no-intercept", "selection": "--selection"}
    given["intercepts"] = "--intercepts"
    foreign = [given[key] for key, value in usual.items() if key not in known and options.get(key, value) != value]
    if foreign:
        raise InputError(f"{', '.join(foreign)}: not for {name}.")
    return model(**{key: value for key, value in options.items() if key in known})


def _l1_ratio(text: str | None) -> float | list[float] | None:
    """A number, or several."""
    if text is None:
        return None
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--l1-ratio must be a number from 0 to 1, or several (a,b,c); got {text!r}.") from None
    return found if len(found) > 1 else found[0]


def _theta(text: str) -> float | str:
    if text == "adaptive":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--theta must be a number, adaptive or inf; got {text!r}.") from None
