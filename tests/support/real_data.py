"""Where real data lie that tests may use: `shared/data` beside the checkout, or above it."""

from pathlib import Path


def folder(name: str) -> Path:
    """A folder of the real data; it need not be there."""
    places = [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    return next((place for place in places if place.is_dir()), places[0]) / name
