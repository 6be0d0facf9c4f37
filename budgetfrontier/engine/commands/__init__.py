"""Commands that steer a frontier: how they arrive, what they do, and what they would do."""
