"""The rules of the frontier: what happens next to a queue, to a URI, and to the crawl.

They know records, settings and numbers, but no table, no clock and no policy. Those that change a record say so; all
others only answer. The engine applies them, `storage.invariants` and `storage.repair` hold what is stored against them.

The life of a queue, in Heritrix's words ("Frontier queue budgets", 1.14):

    EXHAUSTED --URI arrives--> INACTIVE --activation--> READY <--> IN_PROCESS
        ^                        ^  |                    |  ^          |
        |                        |  +--over budget--+    |  +-SNOOZED<-+
        +---------empty----------+                  v    v             |
                                 +---change of--- RETIRED <-over budget+
                                      settings
"""
