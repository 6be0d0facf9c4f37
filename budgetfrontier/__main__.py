"""`python -m budgetfrontier`."""

from __future__ import annotations

from budgetfrontier.cli import main

raise SystemExit(main())
