"""Models as files that are safe to load: JSON and plain arrays, no code.

A file is a zip archive of `model.json` and of arrays; where its name ends in `.json` it is the document alone, with all
arrays written out in it. The document (UTF-8) is an object with these keys:

    format, format_version  "msmtfl-model", 1; a reader refuses a larger version
    model                   the name of the class, such as MSMTFLCV
    parameters              {name: value}: what the model was made with
    parameters_not_stored   {name: text}: parameters that no file can hold (a splitter, a penalty of the user's own); loading
                            takes their defaults, for the penalty an object that says what is missing
    form                    "single": one task, no labels; "long": a label per row; "wide": one X for all tasks
    task_position           place of the task column in the table given, places of several in a list, or null
    fitted                  {name: value}, see below
    stages                  list of {stage, objective, free_rows, dual_gap, kkt, unique, n_iter, seconds, coef, ambiguous},
                            or null; coef null: that of the model; ambiguous: list of [task, [features]], by place
    certificate             {dual_gap, kkt, critical, unique, monotone, tol, convex, ambiguous, doubt}, or null; ambiguous:
                            list of [label, [names of features]]; doubt: why the gap is above tol, or ""
    not_stored              {name: text}: attributes that are left out (surface_)
    provenance              {saved: time in UTC, versions: {python, msmtfl, numpy, scipy, scikit-learn}, user: what the
                            user said, or null, choice: {chosen, reason} if MultiTaskAuto chose the model}
    checksum                "sha256:..." of a file that is all JSON (an archive has its own): of the document without this
                            key, in ASCII, keys sorted, no blanks, numbers as Python writes them. Whoever changes such a
                            file by hand deletes it. Files of earlier versions have none

The prediction for a row x of task i is ``intercept_[i] + coef_[i] . x``: i is the place of its label in `tasks_`, and x is
in the order of `features_`. Where `uses_offset_` is true the row's offset is added. With the parameter loss "poisson",
"gamma" or "tweedie" it is the exponential of that. Of a classifier it is the
log-odds of the second of its two classes; of K > 2 classes coef_ is (m, K, d), or (K, d), intercept_ (m, K), or (K,), and it
is that of each class against the rest; target_mean_ and target_sd_ are (m, K), and the coefs of stages (m K, d).

In `fitted`, with m tasks, d features and c columns given (the task column too):

    tasks_, features_                       (m,) labels: text, numbers, true or false; (d,) text
    coef_, coef_specific_, coef_shared_     (m, d) in the data's units; (d,) if form is "single"
    coef_common_, coef_deviation_           (d,), of K > 2 classes (K, d); as coef_, which is their sum
    classes_                                (K,) labels of a classifier: text, numbers, true or false
    intercept_                              (m,); a number if form is "single"
    uses_offset_                            true if the model was fitted with an offset; older files do not have it
    n_samples_, target_mean_, target_sd_    (m,): rows of the tasks, mean and standard deviation of their targets
    scale_                                  with loss "huber": as intercept_, the scales of the residuals
    n_fitted_tasks_                         the first so many tasks were fitted together, the others added later
    constant_at_                            places, in C order of (m, d), where a column does not vary within a task, so that
                                            no coefficient can be learned; in Python learnable_ (m, d). Older files do not
                                            have it
    feature_sd_                             (d,): standard deviations of the features within tasks, 0 where one never varies.
                                            Older files do not have it
    task_level_features_                    text: the features that differ between tasks only
    row_norms_, row_slopes_                 (d,)
    categories_                             {column: levels} of categorical columns: their features are named column=level
    feature_groups_                         (d,) text: the group of every feature, where some have one in common
    feature_importances_                    (c,)
    n_features_in_, feature_names_in_       c; (c,) text, if the columns had names
    lam_, theta_, lam_s_, lam_b_, lam_max_  numbers, those that the model has
    lam_common_, lam_deviation_             numbers, or inf
    k_, k_common_                           numbers, or inf: those of PartialPooling
    ks_, k_commons_                         of its CV model: (K,); (L,)
    objective_, dual_gap_, n_stages_, n_iter_, converged_, stopping_reason_
    lams_, thetas_                          of a CV model: (K,); (K, L)
    best_point_, best_index_, best_score_   of a CV model: (k, l); its place in the columns of cv_results_; its score
    n_splits_, cv_results_                  of a CV model: {column: (P,)} over the points of the grid, lam outer; test_mse
                                            and test_weight have an array (folds, m) per point

    held_out_                               of a CV model that was fitted to samples by folds: what intervals are made of, a
                                            dict. intercept (folds, m, K), K being 1 or the number of classes beyond two; at
                                            and coef: coefficients without each fold, at places in C order of (folds, m, K,
                                            d), 0 elsewhere; own_task, own_fold, own_score, own_weight: errors of samples
                                            held out, by task and fold, rising, a new sample having weight 1; others_...:
                                            those of predictions by the mean of the other tasks; grouped. Older files do not
                                            have it

A value is null, true, false, a number, a text, a list of values, or an object with one key that says what it is:

    float   "nan", "inf" or "-inf"
    array   {dtype, shape, values} or {dtype, shape, member}: entries in C order, here or in that member of the archive, a
            .npy file of version 1.0, little-endian. dtype is bool, int8 ... uint64, float16 ... float64, str, or object
            (text and numbers, each a value). Floats that are not finite are "nan", "inf", "-inf"
    sparse  {shape, at, values}: float64; 0 but for `values` at the places `at`, which rise, of the array in C order
    cells   an array of which every entry along the first axis is an array of its own
    tuple   a list of values
    dict    {name: value}
    shape   {name, and its parameters}: a penalty of msmtfl._objective.shapes

Members are not compressed, so that none can be larger than the file; each is named once in the document. Whole numbers may
have any number of digits.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._data.tables import warn_user
from .._runtime.archives import pack
from .._runtime.files import write_whole
from .files import as_json, check_sum, checksum, open_model
from .layout import DOCUMENT, stored_models
from .reading import model_of
from .values import Reader
from .writing import Writer, document_of

__all__ = ["MODELS", "load_model", "save_model"]

MODELS = stored_models()


def save_model(model: Any, path: str | os.PathLike[str], *, provenance: dict[str, Any] | None = None) -> None:
    """Write a fitted model to a file that :func:`load_model` and other programs can read; no pickle.

    Parameters
    ----------
    model : estimator
        A fitted model of this package.
    path : path or str
        The file to write: a zip archive of JSON and arrays (`.msmtfl` is a good ending), or all JSON if the
        name ends in `.json`. It is written whole or not at all. The format is described in
        :mod:`msmtfl.model_files`.
    provenance : dict, optional
        Anything that JSON can hold: where the data came from, who fitted, why. A model that was loaded and
        not fitted again keeps what it came with if this is None.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from msmtfl import MSMTFL
    >>> from msmtfl.model_files import load_model, save_model
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.standard_normal((60, 5)), np.repeat(["north", "south"], 30)
    >>> model = MSMTFL().fit(X, X[:, 0] + 0.1 * rng.standard_normal(60), task=task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, os.path.join(folder, "winter.msmtfl"), provenance={"data": "winter survey"})
    ...     same = load_model(os.path.join(folder, "winter.msmtfl"))
    >>> np.array_equal(same.predict(X, task=task), model.predict(X, task=task)), same.provenance_["user"]
    (True, {'data': 'winter survey'})
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {os.fspath(path.parent)} to write {path.name} to.")
    if path.suffix.lower() == ".json":
        alone = document_of(model, Writer(None), provenance)
        data = as_json({**alone, "checksum": checksum(alone)})
    else:
        members: dict[str, bytes] = {}
        document = as_json(document_of(model, Writer(members), provenance))
        data = pack({DOCUMENT: document, **members})
    write_whole(path, data)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Read the fitted model in a file of :func:`save_model`. No code is run, whatever the file holds.

    Coefficients are the same to the bit. What the file says of its origin is `provenance_`. The `surface_`
    of a CV model is not in the file (but `cv_results_` is).

    Parameters
    ----------
    path : path or str
        The file to read.

    Returns
    -------
    estimator
        The fitted model.

    Raises
    ------
    ValueError
        The file is damaged, or of a newer format.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from msmtfl import L12MTL
    >>> from msmtfl.model_files import load_model, save_model
    >>> X = np.random.default_rng(0).standard_normal((30, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(L12MTL(lam=0.1).fit(X, X[:, :2]), os.path.join(folder, "model.json"))
    ...     model = load_model(os.path.join(folder, "model.json"))
    >>> model
    L12MTL(lam=0.1)
    >>> model.predict(X).shape, model.certificate_.unique
    ((30, 2), True)
    """
    try:
        document, members, packed = open_model(Path(path))
        model, not_stored = model_of(document, Reader(members))
        checked = check_sum(document) or packed
    except OSError:
        raise
    except Exception as error:  # whatever a file may hold: one kind of error
        raise ValueError(f"{os.fspath(path)}: {str(error) or type(error).__name__}") from error
    if not checked:
        warn_user(
            f"{os.fspath(path)}: the file has no checksum (an earlier version wrote it, or somebody changed it): damage to "
            "its numbers could not be seen. Save the model again to have one."
        )
    if not_stored:
        given = ", ".join(f"{name}={text}" for name, text in not_stored.items())
        warn_user(
            f"{os.fspath(path)}: the file could not hold {given}; the default stands there (for a penalty: none). "
            "Predictions do not depend on it; set it before fitting again."
        )
    return model
