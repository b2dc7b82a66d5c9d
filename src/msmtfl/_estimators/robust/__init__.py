"""Models that keep tasks unlike the rest from spoiling what the others share: regressions."""
