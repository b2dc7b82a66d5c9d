"""How much memory is free: of the machine, and of the container that the process is in."""

from __future__ import annotations

import os
from pathlib import Path

UNKNOWN = float(2**34)  # where the system does not say


def free_memory() -> float:
    """Bytes that can be taken without swapping."""
    return min(_of_machine(), _of_container())


def _of_machine() -> float:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) / 2
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def _of_container(folder: Path = Path("/sys/fs/cgroup")) -> float:
    """What a control group (version 2 or 1) leaves, infinity if it has no limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (folder / limit).read_text(encoding="ascii").strip()
            return float("inf") if most == "max" else max(float(most) - float((folder / used).read_text()), 0.0)
        except (OSError, ValueError):
            continue
    return float("inf")
