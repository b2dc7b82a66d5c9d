"""What `compare_models` and `which_tasks_help` return."""

from .compare.comparison import Comparison, Corrected
from .compare.sources import TaskHelp

__all__ = ["Comparison", "Corrected", "TaskHelp"]
