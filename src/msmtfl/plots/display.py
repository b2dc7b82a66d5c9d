"""What all Displays have in common."""

from __future__ import annotations

from typing import Any

import numpy as np


class Display:
    """A Display is said in one line: its data would fill pages."""

    def __repr__(self) -> str:
        axes: Any = getattr(self, "ax_", getattr(self, "axes_", None))
        if axes is None:
            return f"<{type(self).__name__}: not drawn yet>"
        titles = [one.get_title(loc="left") or one.get_title() for one in np.ravel(np.asarray(axes, dtype=object))]
        text = "; ".join(title for title in titles if title).replace("\n", ", ").replace(r"\$", "$")
        name = f"<{type(self).__name__}: "
        return f"{name}{text if len(text) <= 90 else text[:89] + '…'}>"
