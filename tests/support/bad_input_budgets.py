"""What test_bad_input.py does wrong with budgets, preset 'auto' and `lingraft recipe`."""

from __future__ import annotations

AUTO = '[training]\npreset = "auto"\n'


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["two budgets"] = adapt("--minutes", "5", "--tokens", "1M")
    cases["a budget of steps and one of hours"] = adapt("--steps", "5", "--hours", "1")
    cases["a budget of tokens that is no number"] = adapt("--tokens", "many")
    cases["a budget of no tokens"] = adapt("--tokens", "0")
    cases["a budget of no minutes"] = adapt("--minutes", "0")
    cases["a recipe and a budget"] = with_recipe("--minutes", "5")
    cases["preset auto without a budget"] = lambda place: place.recipe(AUTO)
    cases["phases that preset auto decides"] = adapt(
        "--minutes", "5", "--set", "phases.0.dropout=0.1"
    )
    cases["a budget in time and a warm-up in steps"] = adapt(
        "--minutes", "5", "--set", "training.warmup=10"
    )
    cases["budgets in time and in steps"] = mixed
    cases["a recipe that does not ship"] = lambda _: ["recipe", "dmeo"]


def adapt(*more):
    """The short form without a budget of its own."""

    def arguments(place):
        words = place.adapt()
        at = words.index("--steps")
        return [*words[: words.index("--preset")], *words[at + 2 :], *more]

    return arguments


def with_recipe(*more):
    """`lingraft adapt` of a recipe, with options that do not go with one."""
    return lambda place: ["adapt", place.recipe()[1], "--out", "run", *more]


def mixed(place):
    """Two phases whose budgets cannot be added up."""
    phase = '[[phases]]\nname = "{}"\ntrain = ["all"]\nbudget = {{ value = 3, unit = "{}" }}\n'
    return place.recipe(phase.format("one", "minutes") + phase.format("two", "steps"))
