"""Committed rows stand behind the rules of preset `auto`."""

from functools import cache

import pytest
from script_modules import load

from lingraft.recipe import auto

pytestmark = pytest.mark.slow
archive = load("archive", "research/scripts")


@cache
def cells(study):
    return {row.cell for row in archive.read(study)}


@pytest.mark.parametrize("rule", auto.RULES, ids=lambda rule: rule.name)
def test_the_rows_that_support_a_rule_are_committed(rule):
    for row in rule.rows:
        name, _, cell = row.partition(":")
        assert cell in cells(name.removesuffix(".jsonl")), row
