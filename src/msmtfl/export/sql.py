"""Predictions as an expression of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from .._data.designs import Floats
from .._data.tables import names_of
from .._estimators.new_tasks import new_line
from .linear import RESPONSES, linear_model, parts_of

TERMS = 16  # of a sum without parentheses
QUOTES = {'"': '"', "`": "`", "[": "]"}  # that begin and end a name


@overload
def to_sql(model: Any, *, task_column: None = None, table: None = None, quote: str = '"') -> dict[Any, str]: ...


@overload
def to_sql(model: Any, *, task_column: str | None = None, table: str | Sequence[str], quote: str = '"') -> str: ...


def to_sql(
    model: Any,
    *,
    task_column: str | None = None,
    table: str | Sequence[str] | None = None,
    quote: str = '"',
) -> dict[Any, str] | str:
    """Write a fitted model as SQL: sums of products that any database can compute.

    What is written is what `predict` returns; of a classifier of two classes it is the probability of the second one
    (``classes_[1]``). Models of counts and amounts, whose predictions are exp of a sum, and classifiers need EXP, which
    databases have (SQLite from 3.35 on, if it was compiled with its functions of mathematics).

    Numbers are written as Python writes them, which is exact, with an exponent, which makes them floating
    point in SQL. Coefficients that are 0 are left out. Long sums are nested in parentheses, 16 terms at a
    time, so that 5,000 features make an expression some 50 deep (SQLite allows 1,000). A NULL among the
    features makes the prediction NULL. SQLite takes time with the square of the terms of a statement,
    seconds for 10,000: where all tasks together have more, run one statement per task, made of the
    expressions.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.
    task_column : str, optional
        The column of the table that identifies the task; by default the one that the model was fitted
        with. Only with `table`.
    table : str or sequence of str, optional
        Write a whole SELECT from this table (("schema", "table") for one in a schema).
    quote : {'"', '`', '['}, default='"'
        The quotes around names: standard SQL, MySQL, SQL Server. SQLite takes a name in double quotes that
        is no column for a text; there '`' is safer.

    Returns
    -------
    dict {label: expression} or str
        An expression per task; or, with `table`, a statement: all columns of the table and `prediction`,
        chosen by the column that identifies the task. A label never seen gives NULL, or with
        ``unknown_task="mean"`` the prediction with the mean coefficients. For a model fitted with a 2-D y
        (and no `task_column`) there is one column per task, under its label.

    Examples
    --------
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.export import to_sql
    >>> X = np.array([[-1, 1], [1, 1], [-1, -1], [1, -1]] * 2)
    >>> model = MSMTFL(lam=0.5).fit(X, 1 + 2 * X[:, 0], task=np.repeat(["north", "south"], 4))
    >>> print(to_sql(model, table="winter", task_column="place"))
    SELECT *, CASE "place"
      WHEN 'north' THEN 1.0e0 + 1.5e0 * "x0"
      WHEN 'south' THEN 1.0e0 + 1.5e0 * "x0"
    END AS "prediction"
    FROM "winter"
    """
    model, link = linear_model(model)
    labels, coef, intercept = parts_of(model)
    if quote not in QUOTES:
        raise ValueError(f"quote must be one of {', '.join(QUOTES)}, got {quote!r}.")
    names = [_name(name, quote) for name in model.features_.tolist()]
    expressions = [_expression(w, b, names, link) for w, b in zip(coef, intercept.tolist(), strict=True)]
    if table is not None:
        _refuse_equals(labels)
    if table is None:
        if task_column is not None:
            raise ValueError("task_column= goes with table=: without, there is one expression per task.")
        return dict(zip(labels, expressions, strict=True))
    if model._form == "single":
        columns = [f"{expressions[0]} AS {_name('prediction', quote)}"]
    elif model._form == "wide" and task_column is None:
        columns = [
            f"{expression} AS {_name(str(label), quote)}" for label, expression in zip(labels, expressions, strict=True)
        ]
    else:
        cases = [f"  WHEN {_literal(label, quote)} THEN {one}" for label, one in zip(labels, expressions, strict=True)]
        if model.unknown_task != "error":
            w, b = new_line(model, coef[:, None], intercept[:, None])
            cases.append(f"  ELSE {_expression(w[0], float(b[0]), names, link)}")
        column = _name(_task_name(model, task_column), quote)
        columns = ["\n".join([f"CASE {column}", *cases, f"END AS {_name('prediction', quote)}"])]
    source = ".".join(_name(part, quote) for part in ([table] if isinstance(table, str) else table))
    return f"SELECT {', '.join(['*', *columns])}\nFROM {source}"


def _task_name(model: Any, given: str | None) -> str:
    if given is not None:
        return given
    if isinstance(model.task_column, str):
        return str(model.task_column)
    if isinstance(model.task_column, (list, tuple)):
        raise ValueError(
            f"the tasks have levels, in the columns {names_of(model.task_column)}: pass task_column=, a column of the table "
            f"with labels as in tasks_, such as {model.tasks_.tolist()[0]!r}."
        )
    if model._task_position is not None and hasattr(model, "feature_names_in_"):
        return str(model.feature_names_in_[model._task_position])
    raise ValueError(
        "pass task_column=, the column of the table that says the task: the model knows it by labels only."
    )


def _refuse_equals(labels: list[Any]) -> None:
    """An error if a number and a text among the labels are the same to a database, or to a reader of column names."""
    numbers = {float(label): label for label in labels if isinstance(label, (bool, int, float))}
    for text in (label for label in labels if isinstance(label, str)):
        try:
            value = float(text)
        except ValueError:
            value = {"true": 1.0, "false": 0.0}.get(text.lower(), float("nan"))
        if value in numbers:
            raise ValueError(
                f"task labels {numbers[value]!r} and {text!r} are the same in SQL, where texts and numbers are compared. "
                "Relabel one of them and fit again; or take the expressions, one per task, without table=."
            )


def _expression(w: Floats, intercept: float, names: list[str], link: str) -> str:
    """What is predicted, from intercept + w . x as a tree of sums."""
    terms = [_number(intercept)] if intercept != 0.0 else []
    terms += [f"{_number(float(w[j]))} * {names[j]}" for j in np.flatnonzero(w)]
    while len(terms) > TERMS:
        terms = [f"({' + '.join(terms[k : k + TERMS])})" for k in range(0, len(terms), TERMS)]
    return RESPONSES[link][0].format(" + ".join(terms) or _number(0.0))


def _number(value: float) -> str:
    text = repr(value)
    return text if "e" in text else text + "e0"


def _name(name: str, quote: str) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"{name!r} cannot be a name in SQL. Rename it and fit again.")
    end = QUOTES[quote]
    return f"{quote}{name.replace(end, 2 * end)}{end}"


def _literal(label: Any, quote: str) -> str:
    if isinstance(label, bool):
        return str(label).upper()
    if isinstance(label, int) and -(2**63) <= label < 2**63:
        return str(label)
    if isinstance(label, float) and np.isfinite(label):
        return _number(label)
    if isinstance(label, str) and "\0" not in label and not (quote == "`" and "\\" in label):
        return "'" + label.replace("'", "''") + "'"
    way_out = " with quote='`': databases differ in what a backslash means" if quote == "`" else ""
    raise ValueError(f"task label {label!r} cannot be written in SQL{way_out}. Relabel the tasks and fit again.")
