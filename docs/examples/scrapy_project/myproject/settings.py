"""The settings of the project: Scrapy's own, and the two lines that give it a frontier with budgets."""

BOT_NAME = "myproject"
SPIDER_MODULES = ["myproject.spiders"]
NEWSPIDER_MODULE = "myproject.spiders"

# Say who you are, with a page or an address for those who want you to stop.
USER_AGENT = "ExampleBot/1.0 (+https://example.org/bot)"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 32
CONCURRENT_REQUESTS_PER_DOMAIN = 1
DOWNLOAD_DELAY = 1

# Requests wait in a frontier on disk, in which each host has a queue with a budget, and hosts take turns.
SCHEDULER = "budgetfrontier.scrapy.Scheduler"

# The frontier is in job/frontier: after Ctrl-C or a kill, the same command continues the crawl.
# Without JOBDIR it is removed at the end, and each run begins anew.
JOBDIR = "job"

BUDGETFRONTIER_SETTINGS = {
    "frontier": {
        "queue_total_budget": 100,  # what a host may spend in all, which ends traps; a request costs 1; -1: no limit
        "retire_when": "reached",
        # "cost_policy": "wag",  # a URL with a query string costs 2
        # "balance_replenish_amount": 50,  # what a host may spend before others have their turn
    },
    # "overrides": [{"match": "domain:example.com", "set": {"queue_total_budget": 1000}}],  # settings for some hosts
}

# Several processes share one frontier, which `budgetfrontier serve jobs` has open:
# BUDGETFRONTIER_URL = "127.0.0.1:7071"
