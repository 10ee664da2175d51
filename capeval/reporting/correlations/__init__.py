"""Tables of metrics held against people."""
