"""The scheduler of a spider that shares a frontier with other processes (`BUDGETFRONTIER_URL`; the extra "grpc")."""

from __future__ import annotations
