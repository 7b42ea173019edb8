"""Tasks with other settings."""

from dataclasses import replace


def with_settings(task, *, doc_stride=None, **settings):
    """A task with other settings."""
    spans = task.spans and task.spans.model_copy(update={"doc_stride": doc_stride})
    return replace(task, spans=spans, settings=task.settings.model_copy(update=settings))
