"""A spider that follows the links of one host, or of several: `-a url=http://a.example/,http://b.example/`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor


class Pages(scrapy.Spider):
    """One item for each page, with its URL and title."""

    name = "pages"

    def __init__(self, url: str = "http://localhost:8000/", **options: Any) -> None:
        super().__init__(**options)
        self.start_urls = url.split(",")
        self._links = LinkExtractor(allow_domains=[urlsplit(each).netloc for each in self.start_urls])

    def parse(self, response: Response) -> Iterator[Any]:
        """Yield the page, and the requests for its links: the frontier drops those that are known."""
        if not isinstance(response, HtmlResponse):
            return
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in self._links.extract_links(response):
            yield response.follow(link)
