"""Judged runs held against one another, and gates on what differs."""
