"""Messages about archives that cannot be read."""

import io

import pytest

from msmtfl._runtime import archives


def test_an_error_without_words_is_named_by_its_kind(monkeypatch):
    def cut_off(file, size):
        raise EOFError  # as zipfile does where a member ends early

    monkeypatch.setattr(archives, "_unpack", cut_off)
    with pytest.raises(ValueError, match=r"damaged or cut off \(EOFError\)"):
        archives.unpack(io.BytesIO(), 0)
