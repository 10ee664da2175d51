"""One chat client for every OpenAI-compatible endpoint: retries, cache, usage and price, log."""
