"""The rules of the frontier: the next state of a queue, of a URI, and of the crawl.

They know records, settings and numbers, but no table, no clock and no policy. Rules that change a record say so; all
others only return a value. The engine applies them, `storage.checks` and `storage.repair` check records by them.

The life of a queue, in Heritrix's words ("Frontier queue budgets", 1.14):

    EXHAUSTED --URI arrives--> INACTIVE --activation--> READY <--> IN_PROCESS
        ^                        ^  |                    |  ^          |
        |                        |  +--over budget--+    |  +-SNOOZED<-+
        +---------empty----------+                  v    v             |
                                 +---change of--- RETIRED <-over budget+
                                      settings
"""
