"""What HTTP streams stand on: requests, answers, retries, budgets and words without secrets."""
