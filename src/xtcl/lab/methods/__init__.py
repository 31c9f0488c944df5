"""The systems that the paper compares itself with, one file each."""
