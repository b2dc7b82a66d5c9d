"""`msmtfl table` and `msmtfl plot`: what goes into a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .._data.tables import choices_of
from .._estimators.families import family_of
from .._estimators.fitted import loss_of, of_survival
from . import options as o
from .inputs.data import InputError
from .models import ModelFile, load
from .pictures import check_picture, picture

TABLE = """\b
Examples:
  msmtfl table model.msmtfl
  msmtfl table model.msmtfl --out table.tex --per sd
  msmtfl table model.msmtfl --out table.docx --intervals scores.csv --level 0.95
  msmtfl table model.msmtfl --long --out coefficients.xlsx"""
PLOT = """\b
Examples:
  msmtfl plot model.msmtfl coefficients --out map.pdf
  msmtfl plot model.msmtfl surface --out surface.svg
  msmtfl plot model.msmtfl path --data scores.csv --out path.png"""
KINDS = {
    "coefficients": "a map of all tasks and features",
    "surface": "held-out errors over the grid that was searched",
    "gain": "what each task gains over separate lassos",
    "path": "coefficients along lam, needs --data",
    "norms": "which features stand out",
    "stages": "the stages of the fit",
    "similarity": "which tasks use the same features",
}
FORMATS = ("text", "tex", "html", "md", "csv")


def table(
    model: ModelFile,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File: .tex, .docx, .html, .md, .csv or .xlsx. Default, and -: stdout."),
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="A line per feature, a column per task. Default up to 12 tasks.")
    ] = False,
    long: Annotated[bool, typer.Option("--long", help="A line per coefficient.")] = False,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="A line per feature: tasks, sign, median and range. Default beyond 12 tasks."),
    ] = False,
    per: Annotated[
        str, typer.Option("--per", help="Effects of one unit of a feature, or of one standard deviation: unit or sd.")
    ] = "unit",
    ratios: Annotated[
        bool, typer.Option("--ratios", help="Exponentials: odds ratios of classes, rate ratios of counts.")
    ] = False,
    intervals: Annotated[
        Path | None,
        typer.Option(
            "--intervals",
            metavar="DATA",
            help="The table that the model was fitted to: estimates with intervals are computed from it (debiased).",
        ),
    ] = None,
    level: Annotated[float | None, typer.Option("--level", help="Of the intervals. Default: 0.95.")] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-y", metavar="COL", help="Target column, if not that of the fit.")
    ] = None,
    intercepts: Annotated[bool, typer.Option("--intercepts/--no-intercepts", help="With the intercepts.")] = True,
    unused: Annotated[bool, typer.Option("--unused", help="Also features that no task uses.")] = False,
    digits: Annotated[int, typer.Option("--digits", min=1, max=15, help="Significant digits shown.")] = 3,
    caption: Annotated[str | None, typer.Option("--caption", help="Default: it says what the table is.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="On stdout: text (default), tex, html, md or csv.")
    ] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    quiet: o.Quiet = False,
) -> None:
    """Make a table of the coefficients for a paper: LaTeX, Word, HTML, Markdown, CSV or Excel."""
    with o.guard("table", quiet):
        from ..tables import coefficient_table
        from ..tables.table import writer_for

        out = o.file_or_stdout(out)
        o.check_outputs((out,), model, *([] if intervals is None else [intervals]))
        layouts = [name for name, given in (("wide", wide), ("long", long), ("summary", summary)) if given]
        if len(layouts) > 1:
            raise InputError(f"{' and '.join(f'--{name}' for name in layouts)}: give one of them.")
        if per not in ("unit", "sd"):
            raise InputError(f"--per must be unit or sd, got {per!r}.")
        if level is not None and intervals is None:
            raise InputError("--level is of --intervals, which is not given.")
        if format is not None and (out is not None or format not in FORMATS):
            raise InputError(
                "--format is for stdout: the ending of --out says what to write."
                if out is not None
                else f"--format must be one of {', '.join(FORMATS)}, got {format!r}."
            )
        if out is not None:
            writer_for(out)  # before the work
        fitted, columns = load(model)
        found = None
        if intervals is not None:
            _refuse_intervals(fitted)
            from ..inference import debiased_intervals
            from .sureness import samples_of

            how = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal}
            samples = samples_of(fitted, columns, intervals, target=target, quiet=quiet, **how)
            found = debiased_intervals(
                samples.model, samples.X, samples.y, level=0.95 if level is None else level, **samples.options
            )
        result = coefficient_table(
            fitted,
            layout=layouts[0] if layouts else None,
            per=per,
            ratios=ratios,
            intervals=found,
            intercepts=intercepts,
            unused=unused,
            digits=digits,
            target=target,
            caption=caption,
        )
        if out is None:
            text = f"{result}\n" if format in (None, "text") else str(result.content(f"table.{format}"))
            o.emit(text, data=format not in (None, "text"))
            return
        o.save(out, result.content(out))
        if not quiet:
            o.tell(f"table: {out}\n{result.caption}")


def plot(
    model: ModelFile,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="; ".join(f"{name}: {text}" for name, text in KINDS.items()) + ".")
    ] = "coefficients",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Picture: .pdf, .svg or .png. Default: KIND.png.")
    ] = None,
    max_features: Annotated[
        int | None, typer.Option("--max-features", min=1, help="coefficients: so many at most. Default: 40.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            help="coefficients: sd (effects of one standard deviation, the default), row (largest 1) or unit.",
        ),
    ] = None,
    of_class: Annotated[
        str | None, typer.Option("--class", help="coefficients: of which class, if there are more than two.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="path: the coefficients of this task.")] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DATA", help="path: the table of the fit; the model is fitted to it again."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-y", metavar="COL", help="Target column, if not that of the fit.")
    ] = None,
    delimiter: o.Delimiter = None,
    encoding: o.Encoding = None,
    decimal: o.DecimalMark = None,
    quiet: o.Quiet = False,
) -> None:
    """Draw a model file for a paper: a figure as PDF, SVG or PNG."""
    with o.guard("plot", quiet):
        if kind not in KINDS:
            raise InputError(f"no picture {kind!r}. Known: {choices_of(kind, KINDS)}.")
        out = Path(f"{kind}.png") if out is None else out
        o.check_outputs((out,), model, *([] if data is None else [data]))
        check_picture(out)
        _refuse_foreign(kind, max_features=max_features, scale=scale, of_class=of_class, task=task, data=data)
        fitted, columns = load(model)
        if kind == "path":
            from .sureness import samples_of

            how: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding, "decimal": decimal, "quiet": quiet}
            if data is None:
                raise InputError(
                    "a path needs the data: a model file holds the coefficients at one point only. Give the table of the "
                    "fit: --data scores.csv."
                )
            samples = samples_of(fitted, columns, data, target=target, **how)
            fitted = samples.model.fit(samples.X, samples.y, **samples.fit_options)
        _refuse_kind(kind, fitted)
        figure = _drawn(kind, fitted, max_features=max_features, scale=scale, of_class=of_class, task=task)
        o.save(out, picture(figure, out))
        if not quiet:
            o.tell(f"picture: {out}")


def _refuse_foreign(kind: str, **given: Any) -> None:
    """Options that this picture does not have."""
    own = {"coefficients": ("max_features", "scale", "of_class"), "path": ("task", "data")}.get(kind, ())
    for name, value in given.items():
        if value is not None and name not in own:
            option = "--class" if name == "of_class" else f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is not for the picture {kind!r}.")
    if given["scale"] not in (None, "sd", "row", "unit"):
        raise InputError(f"--scale must be sd, row or unit, got {given['scale']!r}.")


def _refuse_intervals(fitted: Any) -> None:
    """Models that debiased intervals are not for."""
    family = family_of(fitted)
    if family.classifies or not family.staged:
        raise InputError(
            f"--intervals: they are made for regressions with a sparse penalty, and this model is {family.title}. Leave "
            "--intervals out."
        )
    if loss_of(fitted) != "squared":
        raise InputError(
            f"--intervals: they are those of least squares, and this model was fitted with --loss {loss_of(fitted)}. Leave "
            "--intervals out."
        )


def _refuse_kind(kind: str, fitted: Any) -> None:
    """Models that do not have what a picture shows."""
    family = family_of(fitted)
    searched = family.grid is not None and family.is_search(fitted)
    if kind in ("surface", "gain") and not searched:
        why = (
            "this model's parameters were given" if family.grid is not None else f"this model, {family.title}, has none"
        )
        raise InputError(
            f"the picture {kind!r} needs the errors of a grid, but {why}. Fit {'the' if family.grid else 'another'} model "
            "without giving parameters; `msmtfl compare --plot` shows what sharing gains, for every model."
        )
    if kind == "stages" and not family.staged:
        raise InputError(f"no picture 'stages': this model, {family.title}, is not fitted in stages.")
    if kind == "similarity" and family.selects(fitted) == "":
        raise InputError("no picture 'similarity': the model leaves no feature out, so every task uses every feature.")
    if kind == "gain":
        from ..plots.views import gain_over_lasso

        try:
            gain_over_lasso(fitted)
        except ValueError as error:
            again = "`msmtfl compare --plot` shows it."
            if of_survival(fitted):
                again = "`msmtfl compare --loss cox --plot` shows it, and so does the page of `msmtfl fit --report`."
            raise InputError(
                "this model file cannot tell what sharing gains: the search had no separate lassos in its grid, or was not "
                f"judged by squared errors in several folds. {again}"
            ) from error


def _drawn(
    kind: str, fitted: Any, *, max_features: int | None, scale: str | None, of_class: str | None, task: str | None
) -> Any:
    """The figure."""
    from .. import plots

    if kind == "coefficients":
        options: dict[str, Any] = {} if max_features is None else {"max_features": max_features}
        if of_class is not None:
            options["class_of_interest"] = _label(getattr(fitted, "classes_", None), of_class, "--class")
        how = None if scale == "unit" else scale or "sd"
        return plots.CoefficientMapDisplay.from_estimator(fitted, scale=how, **options).figure_
    if kind == "path":
        one = None if task is None else _label(fitted.tasks_, task, "--task")
        return plots.PathDisplay.from_estimator(fitted, task=one).figure_
    displays: dict[str, Any] = {
        "surface": plots.SurfaceDisplay,
        "gain": plots.GainDisplay,
        "norms": plots.RowNormDisplay,
        "stages": plots.StageHistoryDisplay,
        "similarity": plots.TaskSimilarityDisplay,
    }
    return displays[kind].from_estimator(fitted).figure_


def _label(known: Any, text: str, option: str) -> Any:
    """The label that a text stands for: labels may be numbers."""
    labels = [] if known is None else known.tolist()
    found = [label for label in labels if str(label) == text]
    if not found:
        raise InputError(f"{option}: there is no {text!r}. Known: {choices_of(text, [str(one) for one in labels])}.")
    return found[0]
