"""Files of a load: uncommitted rows, staging, job locks, and retries after storage errors."""
