"""The figures of `make bench`, in the order of the table, and what they must reach."""

from __future__ import annotations

from benchmarks.table import Row, of, ratio

ROWS = (
    Row("schedule", of("schedule"), at_least=250_000),
    Row("schedule / puts of the same rows, nothing else", ratio("schedule", "puts"), "x", at_least=0.3),
    Row("schedule / the same puts, each batch sorted", ratio("schedule", "sorted puts"), "x"),
    Row("lease + finish, 10,000 hosts in rotation", of("drain"), at_least=200_000),
    Row("schedule, per second of processor time", of("schedule", "per_cpu_second")),
    Row("lease + finish, per second of processor time", of("drain", "per_cpu_second")),
    Row("lease + finish, hosts one after the other", of("drain held")),
    Row("anonymous memory, 1,000,000 hosts: peak", of("many hosts", "peak"), "MiB", at_most=150),
    Row("anonymous memory, 1,000,000 hosts: at rest", of("many hosts", "after"), "MiB"),
    Row("reopening that frontier", of("reopen", "seconds"), "s", at_most=0.5),
    Row("anonymous memory after reopening it", of("reopen", "after"), "MiB"),
    Row("import budgetfrontier", of("imports", "package"), "ms", at_most=80),
    Row("from budgetfrontier import Frontier, Settings", of("imports", "engine"), "ms", at_most=80),
    Row("budgetfrontier demo", of("demo", "seconds"), "s", at_most=60),
    Row("schedule 1,000,000 new hosts", of("many hosts")),
    Row("file, bytes per URI: discoveries", of("schedule", "bytes_per_url"), "B"),
    Row("file, bytes per URI: 1,000,000 hosts", of("many hosts", "bytes_per_url"), "B"),
    Row("schedule, :memory:", of("schedule in memory")),
    Row("lease + finish, :memory:", of("drain in memory")),
    Row("puts of the same rows, nothing else", of("puts")),
    Row("the same puts, each batch sorted", of("sorted puts")),
    Row("Scrapy's scheduler, memory: enqueue", of("scrapy in memory")),
    Row("Scrapy's scheduler, memory: next request", of("scrapy in memory", "taken_per_second")),
    Row("Scrapy's scheduler, JOBDIR: enqueue", of("scrapy JOBDIR")),
    Row("Scrapy's scheduler, JOBDIR: next request", of("scrapy JOBDIR", "taken_per_second")),
    Row("schedule / Scrapy, memory", ratio("schedule", "scrapy in memory"), "x"),
    Row("schedule / Scrapy, JOBDIR", ratio("schedule", "scrapy JOBDIR"), "x"),
    Row("lease + finish / Scrapy, memory", ratio("drain", "scrapy in memory", "taken_per_second"), "x"),
    Row("lease + finish / Scrapy, JOBDIR", ratio("drain", "scrapy JOBDIR", "taken_per_second"), "x"),
)
