"""Admission: from what a caller gives to a pending record, once per canonical form."""
