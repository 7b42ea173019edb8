"""What test_bad_input.py does wrong with the executors of `lingraft study`."""

from __future__ import annotations


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a study by an executor that does not exist"] = study("--executor", "pbs")
    cases["options of jobs without a cluster"] = study("timeout_min=1")
    cases["a setting that is no pair"] = study("gpu")
    cases["a check of a study"] = lambda place: ["check", study()(place)[2]]
    cases["a study over another program's results"] = with_other_results
    cases["a report of no study"] = lambda place: ["study", "report", "source"]


def with_other_results(place):
    place.write("results.jsonl", '{"loss": 1}\n')
    return ["study", "report", "."]


def study(*more):
    """A study of one cell, with options."""

    def arguments(place):
        (place.folder / "study.toml").write_text(
            f'name = "tiny"\nbase = "{place.recipe()[1]}"\n[[grids]]\nmethod = ["xpt"]\n'
        )
        return ["study", "run", "study.toml", *more]

    return arguments
