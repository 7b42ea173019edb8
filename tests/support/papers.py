"""Methods as papers have them, for tests that need settings that no text decides."""

from lingraft.recipe.records import AUTO, METHODS


def papers(method):
    """[training] of a method with its own paper's settings, else XPT's."""
    preset = METHODS[method].preset
    return {"method": method, "preset": "xpt2021" if preset == AUTO else preset}
