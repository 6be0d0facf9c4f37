"""Reports for operators: the frontier report as text, tables or HTML, and why something is not being crawled.

Everything here reads a view of the last commit (`budgetfrontier.storage.view`): it works on a running and on a stopped
crawl, takes no lock, and changes nothing.
"""
