"""Policies: the decisions of a frontier that can be replaced, each a plain callable.

| module | called with | returns |
| --- | --- | --- |
| `cost` | `(uri)` | the cost of an attempt, a whole number >= 0 |
| `assignment` | `(uri)` | the queue key, 1 to 255 bytes |
| `precedence` | `(uri, *, precedence)` | the queue's precedence, lower first |
| `politeness` | `(settings, *, fetch_seconds, crawl_delay, random)` | seconds until the queue's next fetch |
| `canonicalization` | `(href)` | the canonical form that deduplication compares |

`uri` is a `CrawlUri` with a normalized `url`. A custom policy is any function with that signature, named
`module:name` in the settings; one with options is a class that takes them as keywords, or a function with keyword
arguments. There is no base class:

    # mypolicies.py, in the settings: `cost_policy: mypolicies:cost`
    def cost(uri):
        return 5 if "/archive/" in uri.url else 1

In each module, `BUILTIN` maps names to policies, and `HERITRIX` maps class names of Heritrix 1 and 3 to them;
`HERITRIX_OPTIONS` has names of options that are not just spelled in another way.
"""
