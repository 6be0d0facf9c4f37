"""Labels of pages, which the requests that are found on them inherit."""

from __future__ import annotations

from typing import Any

from scrapy.spidermiddlewares.base import BaseSpiderMiddleware

from budgetfrontier.scrapy.conversion import LABEL


class Labels(BaseSpiderMiddleware):  # type: ignore[misc]  # Scrapy has no types here
    """A spider middleware: the requests that a callback yields have the label of its page, unless they have one."""

    def get_processed_request(self, request: Any, response: Any) -> Any:
        """Return the request, with the label of the page on which it was found."""
        label = None if response is None else response.meta.get(LABEL)
        if label is not None:
            request.meta.setdefault(LABEL, label)
        return request
