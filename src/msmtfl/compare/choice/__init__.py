"""The choice among families: what each would have chosen, what that costs, and errors corrected for having chosen."""
