"""Import paths of singer_sdk for what it keeps apart: encoders, files, msgspec."""
