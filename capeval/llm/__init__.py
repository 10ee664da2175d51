"""One chat client for every OpenAI-compatible endpoint: retry, cache, usage and price, a fake."""
