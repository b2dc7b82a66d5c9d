"""What a report knows before a word of it is written."""
