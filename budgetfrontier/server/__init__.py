"""The server of `budgetfrontier serve`: frontiers in threads of one process, shared by crawlers in others.

`crawls` opens the frontiers, `crawl_thread` runs each, and `server` puts services before them: that of URLFrontier
(`budgetfrontier.server.urlfrontier`), and our own for `budgetfrontier.remote` (`frontier_service`).
"""
