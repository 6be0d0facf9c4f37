"""The engine: one synchronous state machine over one LMDB environment.

The rules are in `budgetfrontier.rules`. `rotation` moves queues between the `ring`, the snoozed, the FIFOs and the
retired; `pending` finds the next URI of a queue, `leases` knows what is out, `future` what waits for its time.
`admission` takes URIs in. `kernel` applies the rules to the tables, `rollout` brings a change of settings to all
queues, `commands` steer. `guard` keeps an open frontier safe from opening to end, `frontier` is the public API, and
`remote` steers a frontier that may run in another process.
"""
