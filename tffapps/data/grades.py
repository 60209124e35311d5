"""The grades of knee osteoarthritis (Kellgren and Lawrence): names alone, for flags too."""

NAMES = {"0": "healthy", "1": "doubtful", "2": "minimal", "3": "moderate", "4": "severe"}
USED = ("0", "3", "4")  # by the PLFL thesis
