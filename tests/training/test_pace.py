"""A phase that keeps a promised time: by a clock of the test's own."""

from __future__ import annotations

import pytest
from accelerate import Accelerator

from lingraft.recipe import Budget
from lingraft.rundir import write_json
from lingraft.training.pace import Deadline, Pace


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def trained(folder, speeds, deadline=100.0, total=1_000.0):
    """A phase of `total` tokens in looks of a tenth: its pace, and the clock at its end.

    `speeds` are tokens a second, one a look; the last one stays.
    """
    clock, accelerator = Clock(), Accelerator(cpu=True)
    pace = Pace(Budget(value=total, unit="tokens"), 1, folder, Deadline(deadline, clock))
    done, shares, looks = 0.0, [0.0], 0
    while pace.share(done) < 1:
        speed = speeds[min(looks, len(speeds) - 1)]
        step = min(total / 10, pace.end - done)
        clock.now += step / speed
        done, looks = done + step, looks + 1
        shares.append(pace.share(done))
        if shares[-1] < 1:
            pace.look(done, accelerator)
    return pace, clock.now, shares, done


def test_a_phase_on_a_machine_of_the_measured_speed_is_not_touched(tmp_path):
    pace, ended, _, done = trained(tmp_path, [10.0])
    assert (pace.changes, ended, done) == ([], 100.0, 1_000.0)
    assert not (tmp_path / "pace.json").exists()


def test_a_slow_machine_makes_the_phase_shorter_so_that_it_ends_in_time(tmp_path):
    pace, ended, shares, done = trained(tmp_path, [10.0, 10.0, 10.0, 5.0])
    assert done < 1_000
    assert ended == pytest.approx(100.0, abs=5.0)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert pace.changes


def test_a_fast_machine_makes_the_phase_longer_early(tmp_path):
    pace, ended, shares, done = trained(tmp_path, [20.0])
    ((at, end),) = pace.changes
    assert at == 200.0
    assert done == pytest.approx(end)
    assert ended == pytest.approx(100.0, rel=0.05)
    assert shares == sorted(shares)
    assert shares[2] == pytest.approx(0.2)
    assert shares[-1] == pytest.approx(1.0)


def test_a_machine_that_becomes_faster_and_faster_makes_the_phase_longer_again(tmp_path):
    pace, ended, shares, _ = trained(tmp_path, [14.0, 14.0, 14.0, 18.0])
    ends = [end for _, end in pace.changes]
    assert ends == sorted(ends)
    assert len(ends) > 1
    assert 90 < ended < 100  # lengthened once only: 80.5
    assert shares == sorted(shares)


def test_a_machine_that_becomes_fast_late_keeps_the_tokens(tmp_path):
    pace, ended, _, done = trained(tmp_path, [10.0, 10.0, 10.0, 10.0, 40.0])
    assert (pace.changes, done) == ([], 1_000.0)
    assert ended < 60


def test_a_little_time_to_spare_changes_nothing(tmp_path):
    pace, _, _, done = trained(tmp_path, [10.6])
    assert (pace.changes, done) == ([], 1_000.0)


def test_a_phase_that_grew_is_cut_again_where_the_machine_was_fast_for_a_moment(tmp_path):
    pace, ended, shares, _ = trained(tmp_path, [20.0, 20.0, 20.0, 10.0])
    ends = [end for _, end in pace.changes]
    assert ends[0] > 1_000
    assert ends[-1] < ends[0]
    assert ended == pytest.approx(100.0, abs=6.0)
    assert shares == sorted(shares)


def test_what_was_cut_comes_back_where_the_machine_was_slow_for_a_while(tmp_path):
    pace, ended, shares, done = trained(tmp_path, [10.0, 6.0, 6.0, 11.0])
    ends = [end for _, end in pace.changes]
    assert min(ends) < ends[-1] <= 1_000
    assert done == pytest.approx(ends[-1])
    assert ended == pytest.approx(100.0, abs=10.0)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_what_was_cut_does_not_come_back_at_the_end_of_the_schedule(tmp_path):
    speeds = [10.0, 10.0, 10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 40.0]
    pace, _, _, _ = trained(tmp_path, speeds)
    ends = [end for _, end in pace.changes]
    assert ends
    assert ends == sorted(ends, reverse=True)


def test_slow_first_steps_change_nothing(tmp_path):
    pace, _, _, _ = trained(tmp_path, [2.0, 20.0])
    assert pace.changes == []


def test_a_phase_that_is_late_already_still_ends_its_schedule(tmp_path):
    pace, _, shares, done = trained(tmp_path, [10.0, 1.0], deadline=50.0)
    assert shares[-1] >= 1
    assert pace.end - pace.changes[-1][0] == pytest.approx(10.0)
    assert done < 300


def test_the_share_does_not_jump_where_a_phase_is_cut(tmp_path):
    budget = Budget(value=1_000, unit="tokens")
    write_json(tmp_path / "pace.json", [[400, 700], [600, 650]])
    pace = Pace(budget, 1, tmp_path)
    assert pace.share(399.999) == pytest.approx(pace.share(400.001), abs=1e-5)
    assert pace.share(550) == pytest.approx(0.4 + 0.6 / 2)
    assert pace.share(650) == 1.0


@pytest.mark.parametrize("speeds", [[10.0, 10.0, 6.0, 3.0], [20.0, 20.0, 20.0, 8.0]])
def test_a_phase_that_starts_anew_takes_the_same_shares_as_the_one_that_was_changed(
    speeds, tmp_path
):
    first, _, shares, _ = trained(tmp_path, speeds)
    again = Pace(Budget(value=1_000, unit="tokens"), 1, tmp_path, Deadline(0.0, Clock()))
    assert again.changes == first.changes
    assert again.deadline is None
    looks = [change[0] for change in first.changes]
    assert looks
    assert [again.share(100.0 * n) for n in range(2)] == shares[:2]
    assert [again.share(done) for done in (*looks, first.end)] == [
        first.share(done) for done in (*looks, first.end)
    ]


def test_a_budget_in_steps_counts_steps(tmp_path):
    pace = Pace(Budget(value=40, unit="epochs"), 80.0, tmp_path)
    assert (pace.unit, pace.share(20.0)) == ("steps", 0.25)
