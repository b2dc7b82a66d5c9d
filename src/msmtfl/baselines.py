"""What an analyst would try first: ridge per task, one model for all tasks."""

from ._estimators.baselines import LogisticPerTaskCV, PooledLassoCV, PooledLogisticCV, PooledRidgeCV, RidgePerTaskCV

__all__ = ["LogisticPerTaskCV", "PooledLassoCV", "PooledLogisticCV", "PooledRidgeCV", "RidgePerTaskCV"]
