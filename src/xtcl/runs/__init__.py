"""The folder that a fit writes, and the settings files it reads."""
