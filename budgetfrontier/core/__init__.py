"""Types that all the rest uses: records, errors, words, times and sizes, URLs and patterns."""

from __future__ import annotations
