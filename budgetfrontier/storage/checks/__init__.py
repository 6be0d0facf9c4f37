"""The checks of a frontier's tables, each compared with the others and with the totals: `storage.invariants`."""
