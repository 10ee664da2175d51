"""Readers of question files, one module per benchmark."""
