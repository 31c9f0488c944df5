"""One HTML file about a run: a summary as data, a template, and the page."""
