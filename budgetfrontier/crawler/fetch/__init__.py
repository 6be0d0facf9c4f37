"""HTTP fetching: one request for a URI, and its Response."""
