"""The decisions of a frontier that people change: each policy is one plain callable.

| module | called with | returns |
| --- | --- | --- |
| `cost` | `(uri)` | what an attempt costs, a whole number >= 0 |
| `assignment` | `(uri)` | the queue key, 1 to 255 bytes |
| `precedence` | `(uri, *, precedence)` | the queue's precedence, lower first |
| `politeness` | `(settings, *, fetch_seconds, crawl_delay, random)` | seconds until the queue's next fetch |
| `canonicalization` | `(href)` | the form that stands for it in deduplication |

`uri` is a `CrawlUri` whose `url` is already normalized. A policy of one's own is any function of that shape, named
`module:name` in the settings; one with options is a class that takes them as keywords, or a function with keyword
arguments. There is nothing to inherit from:

    # mypolicies.py, in the settings: `cost_policy: mypolicies:cost`
    def cost(uri):
        return 5 if "/archive/" in uri.url else 1

In each module `BUILTIN` maps our names to policies, and `HERITRIX` the class names of Heritrix 1 and 3 to ours.
"""
