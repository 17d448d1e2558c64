"""HTTP client code of streams: requests, responses, retries and rate limits."""
