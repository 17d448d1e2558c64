"""A sample tap of a GraphQL API: planes, page by page behind a cursor."""
