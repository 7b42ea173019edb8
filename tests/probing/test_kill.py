"""A probe that was killed, anywhere, ends with the files of the straight one but for times."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from forking import forked

pytestmark = pytest.mark.slow

KILLING = Path(__file__).parents[1] / "support" / "killing.py"
SETTINGS = "epochs=2,batch=2,learning_rate=0.001,checks_per_epoch=2,patience=0,max_length=48"
TIMES = {"seconds", "tokens_per_second", "mfu", "digest"}  # the last is of all others
STEP = "lingraft.training.loop:_Trainer.take_step"
MOMENTS = {
    "while a model is trained": ((STEP, 4, ""), signal.SIGKILL),
    "with a checkpoint": ((STEP, 4, ""), signal.SIGTERM),
    "in the last step": ((STEP, 6, ""), signal.SIGTERM),
    "while the best weights change": (
        ("pathlib:Path.replace", 2, "best.partial"), signal.SIGKILL,
    ),
    "while examples are written": (("pathlib:Path.replace", 1, "examples-dev"), signal.SIGKILL),
    "before its scores are written": (("pathlib:Path.replace", 2, "scores.json"), signal.SIGKILL),
    "after its scores are written": (
        ("lingraft.finetuning.run:shown", 1, ""), signal.SIGKILL,
    ),
    "while a model is built": (("lingraft.models.export:save", 3, ""), signal.SIGKILL),
    "before its table": (("lingraft.probing.table:write", 1, ""), signal.SIGKILL),
}  # fmt: skip


@pytest.fixture(scope="module")
def launch(adapted, tmp_path_factory):
    """Probes into one folder in a process of its own; its status. All calls are alike."""
    folder = tmp_path_factory.mktemp("killed")
    words = ["bad", "good", "awful", "fine", "poor", "great"]
    rows = "".join(f"sentence number {n} is {word}\t{n % 2}\n" for n, word in enumerate(words))
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("sentence\tlabel\n" + rows)
    words = ["probe-source", adapted("roberta"), "--phase", "phase-1", "--task", "glue-sst2"]
    words += ["--data", folder, "--seeds", 1, "--set", SETTINGS, "--out", folder / "out"]

    def start(*moment):
        child = forked(KILLING, list(map(str, words)), str(folder / "errors"), *moment)
        child.join(200)
        return child.exitcode

    start.out, start.errors = folder / "out", folder / "errors"
    return start


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if key not in TIMES}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def contents(out):
    """All files, and what they hold without times."""
    found = {}
    for path in out.rglob("*"):
        if path.suffix == ".json":
            found[path] = without_times(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[path] = [without_times(json.loads(row)) for row in path.read_text().splitlines()]
        else:
            found[path] = path.read_bytes() if path.is_file() else None
    return found


@pytest.fixture(scope="module")
def straight(launch):
    assert launch() == 0, launch.errors.read_text()
    return contents(launch.out)


@pytest.mark.parametrize(("moment", "number"), MOMENTS.values(), ids=MOMENTS)
def test_a_killed_probe_ends_with_the_files_of_the_straight_one(moment, number, launch, straight):
    shutil.rmtree(launch.out)
    status = launch(moment, number)
    wanted = 128 + number if number == signal.SIGTERM else -number
    assert status == wanted, launch.errors.read_text()
    assert launch() == 0, launch.errors.read_text()
    found = contents(launch.out)
    assert found.keys() == straight.keys()
    assert [path for path in found if found[path] != straight[path]] == []
