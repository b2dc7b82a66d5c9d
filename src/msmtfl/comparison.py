"""What `compare_models` and `which_tasks_help` return."""

from .compare.comparison import Comparison
from .compare.errors import Corrected
from .compare.sources import TaskHelp

__all__ = ["Comparison", "Corrected", "TaskHelp"]
