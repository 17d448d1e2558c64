"""HTTP for streams: requests, responses, retries and rate limits."""
