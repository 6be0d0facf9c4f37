"""Admission: from the URIs that a caller passes to pending records, once per canonical form."""
