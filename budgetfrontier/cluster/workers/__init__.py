"""Workers: which partitions each has, and the calls of clients that it answers."""
