from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

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
    [({}, logging.INFO), ({"verbose": True}, logging.DEBUG), ({"quiet": True}, logging.WARNING)],
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
    times = ("300/1,000 steps (30%), 1 min 10 s", "600/1,000 steps (60%), 40 s")
    assert lines == [f"phase-1: {time} left, 10.0 steps/s, loss 5.0" for time in times]


def test_what_was_done_before_does_not_count_as_speed(clock, lines):
    with log.progress("phase-1", 1_000, "steps") as ticker:
        ticker.start_at(500)
        clock[0] += 50
        ticker.update(600)
    assert lines == ["phase-1: 600/1,000 steps (60%), 3 min 20 s left, 2.0 steps/s"]
