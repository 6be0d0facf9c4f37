"""`budgetfrontier demo`: a synthetic web with crawler traps (web), and a crawl of it (run)."""
