"""One partition: its frontier with the owner, its copies elsewhere, its messages to others, and its state."""
