"""What is minimised, and how far a W is from the minimum: losses, shapes, penalties, certificates."""
