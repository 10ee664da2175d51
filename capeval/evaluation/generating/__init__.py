"""Captioning a set of videos as a run: plan, cost, work, shards."""
