"""What an operator reads: the frontier report as text, tables or HTML, and why something is not being crawled.

Everything here is made from the read model (`budgetfrontier.store.view`), so it works on a running crawl and on a
stopped one, takes no lock, and changes nothing.
"""
