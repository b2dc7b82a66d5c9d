"""When the process began, as far as this package knows: `__main__` imports this before anything that takes long."""

import time

BEGAN = time.perf_counter()
