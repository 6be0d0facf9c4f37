"""The engine: one synchronous state machine over one LMDB environment.

`queue` holds the rules as pure functions, `rotation` moves queues between the ring, the snoozed, the FIFOs and the
retired, `leases` knows what is out, `intake` admits URIs, `kernel` applies the rules to the tables, `adjustments` are
the commands that steer it, and `frontier` is its face.
"""
