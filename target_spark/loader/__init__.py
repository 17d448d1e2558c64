"""The loader: from decoded rows to committed tables and released states."""
