"""The report page and the model card, made from the files of a run alone, without torch."""
