"""Messages that Frontera 0.8.1's own codecs have written: the samples, and the program that makes the file of them.

Frontera needs old packages, so the program runs in an environment of its own:

    python3.11 -m venv /tmp/frontera
    /tmp/frontera/bin/pip install frontera==0.8.1 'w3lib<2' msgpack==0.6.2
    /tmp/frontera/bin/python tests/bus/frontera_messages.py

It also has Frontera's decoders read each message back, and fails if one cannot.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("data") / "frontera-0.8.1.json"

BARE = {"url": "http://example.org/", "meta": {b"scrapy_meta": {}}}
FULL = {
    "url": "https://example.org/find?q=caf%C3%A9&lang=fr",
    "method": b"POST",
    "headers": {b"Accept": [b"text/html", b"*/*"], b"Referer": [b"https://example.org/"]},
    "cookies": {b"session": b"abc", "plain": "text"},
    "meta": {
        b"fingerprint": b"2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        b"domain": {b"name": b"example.org", b"fingerprint": b"0caaf24ab1a0c33440c06afe99df986365b0781f"},
        b"jid": 7,
        b"score": 0.75,
        b"scrapy_callback": None,
        b"scrapy_meta": {b"depth": 3, "text": "h\u00e9llo \u2603", b"bytes": b"text", b"list": [1, "a", b"a", True]},
        b"big": 1 << 40,
        b"negative": -1234567,
    },
}
RESPONSE = {"url": "https://example.org/final", "status_code": 404, "headers": {b"Server": [b"nginx"]}}
BODY = b"<p>caf\xe9 \x00\xff</p>"
SAMPLES: dict[str, tuple[Any, ...]] = {
    "request bare": ("request", BARE),
    "request full": ("request", FULL),
    "page_crawled": ("page_crawled", RESPONSE, FULL),
    "page_crawled body": ("page_crawled", {**RESPONSE, "body": BODY}, FULL),
    "links_extracted": ("links_extracted", FULL, [BARE, FULL]),
    "links_extracted none": ("links_extracted", FULL, []),
    "request_error": ("request_error", FULL, "DNSLookupError: n\u00e3o"),
    "update_score": ("update_score", FULL, 0.625, True),
    "update_score seen": ("update_score", BARE, 1, False),
    "offset": ("offset", 3, 70000),
    "new_job_id": ("new_job_id", 1700000000),
    "stats": ("stats", {"source": "sw", "consumed": 512, "rate": 1.5, b"raw": b"bytes"}),
}
"""Names of samples: the type of the message, and its fields, requests and responses as their arguments."""


def main() -> None:
    """Write the file with the environment's Frontera."""
    from frontera.contrib.backends.remote.codecs import json as json_codec
    from frontera.contrib.backends.remote.codecs import msgpack as msgpack_codec
    from frontera.core.models import Request, Response

    written: dict[str, dict[str, str]] = {}
    for form, codec in (("msgpack", msgpack_codec), ("json", json_codec)):
        for name, (kind, *fields) in SAMPLES.items():
            encoder = codec.Encoder(Request, send_body="body" in name)
            decoder = codec.Decoder(Request, Response)
            if kind == "page_crawled":
                response, request = fields
                objects: list[Any] = [Response(**response, request=Request(**request))]
            else:
                objects = [
                    [Request(**one) for one in field]
                    if isinstance(field, list)
                    else Request(**field)
                    if isinstance(field, dict) and "url" in field
                    else field
                    for field in fields
                ]
            data = getattr(encoder, f"encode_{kind}")(*objects)
            decoded = decoder.decode_request(data) if kind == "request" else decoder.decode(data)
            assert kind == "request" or decoded[0] == kind
            data = data if isinstance(data, bytes) else data.encode()
            written.setdefault(form, {})[name] = b64encode(data).decode()
    FILE.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
