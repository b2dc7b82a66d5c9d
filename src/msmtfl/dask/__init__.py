"""MSMTFL on a Dask cluster (extra `dask`): the answer is that of one machine, whatever the cluster.

Two modes. **moments**: every partition is reduced to its statistics, these are added up in a tree, and the model is fitted
where the client is: for up to some thousand features, any number of rows. **data**: every task's rows are brought
together on one worker and stay there; stages are solved where the data are, of a surface or of cross-validation all that
come next at a time. Down go lam and the features whose weights are eased, up come
coefficients.

All work is done by functions of their arguments, so what is lost with a worker is computed again, with the same result (to
rounding).
"""

from .models import DaskMSMTFL, DaskMSMTFLCV

__all__ = ["DaskMSMTFL", "DaskMSMTFLCV"]
