"""Sample tap for the Swagger Petstore; its schemas are read from the API's OpenAPI document."""
