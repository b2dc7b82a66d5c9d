"""What any program needs: threads, progress, checks, files written whole, text that can be printed."""
