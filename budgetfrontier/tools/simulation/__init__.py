"""Simulations: the engine on a copy of a job's frontier, with fetches that are drawn, and time that jumps ahead."""
