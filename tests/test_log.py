from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from lingraft import log


@pytest.fixture
def clock(monkeypatch):
    """The time that tickers see, in seconds; set `clock[0]`."""
    now = [100.0]
    monkeypatch.setattr("lingraft.log.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def lines(monkeypatch):
    """Messages that lingraft logs, away from a terminal."""
    messages = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("lingraft")
    before = (logger.handlers[:], logger.level, logger.propagate)
    logger.handlers[:], logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    monkeypatch.setattr(log, "console", Console(file=io.StringIO(), stderr=True))
    yield messages
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({}, logging.INFO),
        ({"verbose": True}, logging.DEBUG),
        ({"quiet": True}, logging.WARNING),
    ],
)
def test_the_log_goes_to_standard_error_alone(options, level, lines, capsys, monkeypatch):
    monkeypatch.setattr(log, "console", Console(file=io.StringIO()))
    log.set_up(**options)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger("lingraft.somewhere").log(number, "level %d", number)
    logging.getLogger("another.library").warning("chatter")
    said = capsys.readouterr()
    assert said.out == ""
    shown = [line.split(" ", 1)[1] for line in said.err.splitlines() if "level" in line]
    assert shown == [f"level {number}" for number in (10, 20, 30) if number >= level]


def test_away_from_a_terminal_there_is_a_line_every_half_minute(clock, lines):
    with log.progress("phase-1", 1_000, "steps") as ticker:
        for second in range(61):
            clock[0] = 100.0 + second
            ticker.update(second * 10, "loss 5.0")
    assert lines == [
        "phase-1: 300/1,000 steps (30%), 1 min 10 s left, 10.0 steps/s, loss 5.0",
        "phase-1: 600/1,000 steps (60%), 40 s left, 10.0 steps/s, loss 5.0",
    ]


def test_what_was_done_before_does_not_count_as_speed(clock, lines):
    with log.progress("phase-1", 1_000, "steps") as ticker:
        ticker.start_at(500)
        clock[0] += 50
        ticker.update(600)
    assert lines == ["phase-1: 600/1,000 steps (60%), 3 min 20 s left, 2.0 steps/s"]


def test_the_time_left_goes_by_the_last_quarter_not_by_a_slow_start(clock, lines):
    with log.progress("phase-1", 10_000, "steps") as ticker:
        for second in range(1, 401):
            clock[0] = 100.0 + second
            ticker.update(second if second <= 100 else 100 + 10 * (second - 100))
    assert lines[0].endswith("2 h 46 min left, 1.0 steps/s")
    assert lines[-1].endswith("10.0 steps/s")  # 7,000 to go
    ends = [line.rpartition(" left")[0].rpartition("), ")[2] for line in lines[-4:]]
    assert ends == ["13 min 10 s", "12 min 40 s", "12 min 10 s", "11 min 40 s"]


def test_on_a_terminal_there_is_a_bar(lines, monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(log, "console", console)
    with log.progress("phase-1", 10, "steps") as ticker:
        ticker.update(10, "loss 4.2")
    assert "phase-1" in screen.getvalue()
    assert "10/10" in screen.getvalue()
    assert "loss 4.2" in screen.getvalue()
    assert lines == []


def test_names_in_tables_and_progress_are_printed_as_they_are(monkeypatch, lines):
    name = "[/] [bold]a :smile: [red]"
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    table = Table(name, title=name, caption=name)
    table.add_row(name)
    out = log.results_console()
    out.print(table)
    out.print(f"name: {name}")
    assert shown.getvalue().count(name) == 5
    bar_file = io.StringIO()
    terminal = Console(file=bar_file, force_terminal=True, width=200, markup=False, emoji=False)
    monkeypatch.setattr(log, "console", terminal)
    with log.progress(name, 2, name) as ticker:
        ticker.update(1, name)
    assert name in bar_file.getvalue()


def test_every_command_prints_results_without_mark_up():
    homes = [
        path
        for path in Path(log.__file__).parent.rglob("*.py")
        if "Console(" in path.read_text("utf-8")
    ]
    assert [path.name for path in homes] == ["log.py"]
