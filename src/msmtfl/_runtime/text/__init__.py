"""Text and tables that are shown: escaped, sorted as people count, laid out as documents."""
