"""Which tasks use which features, and how alike the tasks are in that."""

from .by_class import class_place, coef_by_class, size_over_classes, split_classes
from .maps import SharingMap, by_variable, freed_rows, map_of, sharing_map, variables_of
from .similarity import TaskSimilarity, task_similarity

__all__ = [
    "SharingMap",
    "TaskSimilarity",
    "by_variable",
    "class_place",
    "coef_by_class",
    "freed_rows",
    "map_of",
    "sharing_map",
    "size_over_classes",
    "split_classes",
    "task_similarity",
    "variables_of",
]
