"""What a model gets wrong, and why: `capeval report`, `capeval inspect` and `capeval plot`."""
