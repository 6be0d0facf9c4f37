"""`budgetfrontier demo`: a synthetic web with its traps (web), and a crawl that meets them (run)."""
