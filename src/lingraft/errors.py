"""The errors that lingraft raises on purpose. Each message is one line that says what to do."""


class LingraftError(Exception):
    """Base of every error that a user can cause and mend."""

    exit_status = 1
    """What the command line ends with."""

    def __str__(self) -> str:
        """The message on one line, whatever names and values of the user stand in it."""
        return " ".join(super().__str__().splitlines())


class RecipeError(LingraftError, ValueError):
    """A recipe (or a command line) asks for something that cannot be done as written."""


class DataError(LingraftError, ValueError):
    """Text, a tokenizer or a run on disk is not what it should be."""


class UnsupportedModelError(LingraftError, ValueError):
    """The source model is of a kind, or in a state, that lingraft cannot graft onto."""


class TrainingError(LingraftError, RuntimeError):
    """Training cannot go on (the loss is not finite, say); names the last good checkpoint."""
