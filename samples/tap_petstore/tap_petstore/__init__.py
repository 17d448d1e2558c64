"""A sample tap whose schemas come from a published OpenAPI document: the Swagger Petstore."""
