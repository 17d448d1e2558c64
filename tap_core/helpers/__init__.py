"""The annex for import paths of singer_sdk; everything is shown from its own room."""
