"""Alerts: a job is watched by a process of its own, and what begins or ends is told to webhooks, commands and mail."""
