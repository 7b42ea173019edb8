"""What test_bad_input.py does wrong with the executors of `lingraft study`."""

from __future__ import annotations


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["a study by an executor that does not exist"] = study("--executor", "pbs")
    cases["options of jobs without a cluster"] = study("--executor-option", "time=1:00")
    cases["an option of a job that is no pair"] = study("--executor-option", "gpu")
    cases["an option of sbatch that is lingraft's own"] = study(
        "--executor", "slurm", "--executor-option", "output=x", "--dry-run"
    )
    cases["an option of sbatch with a space"] = study(
        "--executor", "slurm", "--executor-option", "time limit=1", "--dry-run"
    )
    cases["a check of a study"] = lambda place: ["check", study()(place)[1]]
    cases["a study over another program's results"] = with_other_results
    cases["a study with a folder in the place of results"] = study("--results", "source")


def with_other_results(place):
    place.write("mine.jsonl", '{"loss": 1}\n')
    return study("--results", "mine.jsonl")(place)


def study(*more):
    """A study of one cell, with options."""

    def arguments(place):
        (place.folder / "study.toml").write_text(
            f'name = "tiny"\nbase = "{place.recipe()[1]}"\n[[grids]]\nmethod = ["xpt"]\n'
        )
        return ["study", "study.toml", *more]

    return arguments
