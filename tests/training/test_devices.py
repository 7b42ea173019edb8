"""What a GPU, or several processes, would notice first."""

import time

from lingraft.training.accumulation import Totals
from lingraft.training.loop import train_phase


def test_the_time_that_a_device_is_waited_for_is_the_steps_own(
    tiny_model, tiny_job, accelerator, monkeypatch
):
    original = Totals.means

    def means(totals, accelerator):
        time.sleep(0.3)
        return original(totals, accelerator)

    model, job = tiny_model("roberta"), tiny_job()
    monkeypatch.setattr(Totals, "means", means)
    assert train_phase(job, model, accelerator)["seconds"] >= 3 * 0.3
