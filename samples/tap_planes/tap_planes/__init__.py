"""Sample tap for a GraphQL API with cursor pagination."""
