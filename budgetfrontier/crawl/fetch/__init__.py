"""HTTP: a request goes out, a Response comes back."""
