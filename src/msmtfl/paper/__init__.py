"""The paper: its experiments, its theory on given data, its global optimum."""
