"""What an analyst would try first: ridge per task, one model for all tasks."""

from ._estimators.baselines.lasso import PooledLassoCV
from ._estimators.baselines.logistic import LogisticPerTaskCV, PooledLogisticCV
from ._estimators.baselines.ridge import PooledRidgeCV, RidgePerTaskCV

__all__ = ["LogisticPerTaskCV", "PooledLassoCV", "PooledLogisticCV", "PooledRidgeCV", "RidgePerTaskCV"]
