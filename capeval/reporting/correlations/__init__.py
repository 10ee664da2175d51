"""Tables of metrics compared with human ratings."""
