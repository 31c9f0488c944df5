"""Compared systems, one file each, behind one small interface."""
