"""The console: pages of running and stopped jobs, made on the server from read-only snapshots (the extra "console").

`app` ties the parts together. A page is a module in `pages` and a template of the same name; both know nothing of HTTP.
What changes a job goes through `steering`, to a process of its own.
"""

from __future__ import annotations

from budgetfrontier.errors import check_extra

check_extra("console", "aiohttp", "jinja2", "markupsafe", "multidict", "prometheus_client", "rich")
