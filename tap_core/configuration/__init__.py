"""Compatibility import path of singer_sdk; nothing is defined here."""
