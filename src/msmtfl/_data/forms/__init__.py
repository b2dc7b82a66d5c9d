"""The forms that a task's data come in, each of them one `Design`."""
