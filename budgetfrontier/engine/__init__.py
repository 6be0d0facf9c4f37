"""The engine: one synchronous state machine over one LMDB environment.

The rules are in `budgetfrontier.rules`. Each table has one owner: `pending`, `queue_cache`, `rotation` with the `ring`,
`lease_table`, `future`, `dead_letters`, `audit`; `tables` holds them together with the totals and the settings.
`admission` takes new URIs in, `returning_uris` returning ones. `turns` activates queues and leases; queues take their
settings in `queue_settings`. `finish` ends leases with an outcome, `finish_many` by the batch, `lease_expiry`
leases without one. `rollout` brings a change of settings to all queues; `kernel` orders the steps of a lease, and
decides when a crawl is over. `opening` makes them, with the settings that `settings_at_open` finds. `guard` keeps an
open frontier safe from opening to end, `commit_schedule` knows when a commit is due, `commands` steer. `frontier` is
the public API: its arguments are checked in `arguments`, its batches of URIs taken in by `batches`. `remote` steers a
frontier that may run in another process.
"""
