"""Log of a partition: its entries, how they are read and written, its clock, and the rows that say how far it is."""
