"""The engine: one synchronous state machine over one LMDB environment.

The pure rules are in `budgetfrontier.rules`. `rotation` moves queues between the `ring`, the snoozed, the FIFOs and the
retired, `heads` finds what goes out next, `leases` knows what is out, `later` what waits for its time.
`candidates` reads what is given, `dedup` knows what was, `intake` admits the rest.
`kernel` applies the rules to the tables, `backlog` works off what a change of settings leaves, `adjustments` are the
commands that steer, `foresight` says what they would do.
`session` is one open frontier from opening to end, and `frontier` is its face.
"""
