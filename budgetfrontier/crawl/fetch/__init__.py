"""HTTP: a request goes out, an Answer comes back."""
