"""The tables and figures of research/pages, from the rows of studies."""
