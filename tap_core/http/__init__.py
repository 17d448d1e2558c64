"""What HTTP streams stand on: requests, answers, retries and budgets."""
