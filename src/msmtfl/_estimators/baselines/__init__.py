"""What an analyst would try first: ridge per task, and one model for all tasks on task-centred data; for classes the same
with the logistic loss."""
