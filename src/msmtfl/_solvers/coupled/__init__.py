"""Problems that couple the tasks: norms of rows, common parts, partial pooling, for any loss."""
