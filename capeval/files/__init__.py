"""File formats: files are written whole or not at all, and every error is one line.

Every function that reads a file raises `InputError` for the first mistake. The error names the
file, the line (or the record's index) and the column or dotted field.
"""
