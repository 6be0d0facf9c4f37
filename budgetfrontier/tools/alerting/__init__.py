"""Alerts: a process of its own watches a job, and reports conditions that begin or end by webhook, command and mail."""
