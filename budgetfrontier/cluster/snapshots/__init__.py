"""Snapshots of partitions: when they are taken, where they are stored, and how they are restored."""
