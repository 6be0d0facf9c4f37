"""The engine: one synchronous state machine over one LMDB environment.

The rules are in `budgetfrontier.rules`. Each table has one owner: `pending`, `queue_cache`, `rotation` with the `ring`,
`leases`, `future`, `dead_letters`, `audit`; `tables` holds them together with the totals and the settings in force.
`admission` takes URIs in, `arrivals` those that come back; `turns` activates queues and leases, `attempts` ends leases,
`rollout` brings a change of settings to all queues, `kernel` decides when a crawl is over, `commands` steer. `guard`
keeps an open frontier safe from opening to end, `frontier` is the public API, and `remote` steers a frontier that may
run in another process.
"""
