"""Small sources of all families, a made-up corpus, and the command line in this process."""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import logging
import os
import random
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from causal_tokenizers import OF_FAMILY, build as build_causal
from huggingface_hub import constants
from tiny_shapes import SHAPES, STARTS
from tiny_tokenizers import SIZE, TEXT, build as build_tiny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from accelerate import Accelerator
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from lingraft.tokenizer.shards import Tokens
    from lingraft.training.phase import Job


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Threads of several workers wait for each other: a run takes minutes, not seconds."""
    import torch
    from accelerate.utils import memory

    memory.clear_device_cache = lambda *_, **__: None  # the CPU has none: it collects all garbage
    os.environ["OMP_NUM_THREADS"] = "1"  # for processes that tests start
    os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"  # threads that read a few kilobytes each
    os.fsync = lambda _: None  # no test pulls a plug
    torch.set_num_threads(1)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Take a processor with fast "bf16" or with "fp32" alone, for this test."""
    import torch

    def chosen(name: str) -> None:
        for support in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
            monkeypatch.setattr(torch.cpu, support, lambda: name == "bf16")

    return chosen


ROOM = 4 * 2**30
"""Bytes that a whole run of the tests may need at a time, with room to spare."""


def pytest_configure() -> None:
    """No test asks the Hub; temporary files, thousands of small ones, lie in memory if they fit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of what a script starts with &
        signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests inherit it
    if "HF_HUB_OFFLINE" not in os.environ:
        os.environ["HF_HUB_OFFLINE"] = "1"  # for processes that tests start
        constants.HF_HUB_OFFLINE = True  # huggingface_hub has read the variable already
    memory = "/dev/shm"
    with contextlib.suppress(OSError):
        if "TMPDIR" not in os.environ and shutil.disk_usage(memory).free > ROOM:
            os.environ["TMPDIR"] = tempfile.tempdir = memory


gc.disable()  # until everything is imported


def pytest_collection_finish() -> None:
    """What is imported stays: no collection of garbage walks through torch and transformers."""
    gc.collect()
    gc.freeze()
    gc.enable()


def build(family: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a family's tiny models."""
    return build_causal(OF_FAMILY[family]) if family in OF_FAMILY else build_tiny(family)


@pytest.fixture(scope="session")
def tiny_tokenizer() -> Callable[[str], PreTrainedTokenizerBase]:
    """Source tokenizers of about 300 pieces, one a family.

    They are shared by all tests: do not change them.
    """
    return build


@pytest.fixture(scope="session")
def tiny_text() -> tuple[str, ...]:
    """English and Korean sentences."""
    return tuple(TEXT)


def first_of(*ids: int | None) -> int | None:
    """The first that there is."""
    return next((index for index in ids if index is not None), None)


def _model(family: str, **changes: object) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig

    from lingraft.models.families import FAMILIES
    from lingraft.models.loading import auto_class

    tokenizer, record = build(family), FAMILIES[family]
    ids = {
        # as often in real models, a few rows more than there are pieces
        "vocab_size": max(SIZE, -(-len(tokenizer) // 64) * 64),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": first_of(tokenizer.bos_token_id, tokenizer.cls_token_id),
        "eos_token_id": first_of(tokenizer.eos_token_id, tokenizer.sep_token_id),
    }
    if record.decoder_list is not None:
        ids["decoder_start_token_id"] = getattr(tokenizer, STARTS.get(family, "eos_token_id"))
    if family == "modernbert":
        ids |= {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    config = AutoConfig.for_model(family, **{**SHAPES[family], **ids, **changes})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        model = auto_class(config).from_config(config)
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return model.float().eval()


@pytest.fixture(scope="session")
def tiny_model() -> Callable[..., PreTrainedModel]:
    """Builds a fresh stock model of two layers and 320 rows, for a family's `tiny_tokenizer`.

    Norms and biases are not at their initial values. Call it with configuration values to change:
    `tiny_model("bert", num_hidden_layers=3)`.
    """
    return _model


@pytest.fixture(scope="session")
def tiny_source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a small source model with its tokenizer, one a family; do not change it."""

    @functools.cache
    def saved(family: str) -> Path:
        folder = tmp_path_factory.mktemp("source") / family
        _model(family).save_pretrained(folder)
        build(family).save_pretrained(folder)
        return folder

    return saved


@pytest.fixture(scope="session")
def veco_source(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The same with cross-attention whose weights matter."""
    from with_module import with_module

    from lingraft.models import loading

    @functools.cache
    def saved(family: str) -> Path:
        folder = tmp_path_factory.mktemp("veco") / family
        loading.save(with_module(_model(family), family), folder)
        build(family).save_pretrained(folder)
        return folder

    return saved


WORDS = """
나는 학교에 가서 친구를 만나고 집에 와서 책을 읽었다 문서를 열고 형식을 선택한 다음 폴더에 둔다
오늘은 날씨가 좋아서 우리는 함께 공원을 걸었다 커피를 마시며 음악을 듣는 시간이 가장 즐겁다
도구 모음에서 단추를 누르면 새로운 창이 나타난다 표의 행과 열을 삭제하려면 범위를 지정하십시오
바다와 산을 보러 기차를 타고 멀리 떠났다 저녁에는 가족과 따뜻한 밥을 먹는다
"""


@pytest.fixture(scope="session")
def korean_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file of 400 made-up Korean sentences, a line each."""
    drawn, words = random.Random(0), WORDS.split()
    lines = [" ".join(drawn.choices(words, k=drawn.randint(4, 12))) + ".\n" for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "ko.txt"
    path.write_text("".join(lines), "utf-8")
    return path


class Finished(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str

    def well(self) -> Finished:
        """Itself, of a command that must have ended well."""
        assert self.status == 0, self.err
        return self


def _command(*arguments: object) -> Finished:
    from lingraft.cli import app as cli

    out, err, logger = io.StringIO(), io.StringIO(), logging.getLogger("lingraft")
    before = (logger.handlers[:], logger.level, logger.propagate)
    status: Any = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["lingraft", *map(str, arguments)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as error:
                status = error.code or 0
            finally:
                logger.handlers[:], logger.level, logger.propagate = before
    return Finished(status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def command() -> Callable[..., Finished]:
    """Runs the command line in this process: `command("adapt", recipe, "--out", run)`."""
    return _command


TINY_RUN = ("training.preset=xpt2021", "tokenizer.vocab_size=300", "tokenizer.max_tokens=64")
TINY_RUN += ("training.batch={size=8, unit='sentences'}", "hardware.row_tokens=64")
TINY_RUN += ("evaluation.samples=1",)


@pytest.fixture(scope="session")
def shorthand(
    tiny_source: Callable[[str], Path], korean_text: Path
) -> Callable[..., tuple[object, ...]]:
    """The arguments of a tiny run without a recipe: `command(*shorthand(out, "bert"), …)`."""

    def arguments(out: Path, family: str = "roberta", steps: int = 6) -> tuple[object, ...]:
        start = ("adapt", "--source", tiny_source(family), "--text", korean_text, "--lang", "ko")
        return (*start, "--out", out, "--budget", f"{steps}steps", *TINY_RUN)

    return arguments


@pytest.fixture(scope="session")
def adapted(
    tmp_path_factory: pytest.TempPathFactory, shorthand: Callable[..., tuple[object, ...]]
) -> Callable[[str], Path]:
    """The folder of a finished run of 6 steps, one a family; do not change it."""

    @functools.cache
    def run(family: str) -> Path:
        out = tmp_path_factory.mktemp("adapted") / family
        _command(*shorthand(out, family)).well()
        return out

    return run


@contextlib.contextmanager
def _one_process() -> Iterator[Accelerator]:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield Accelerator(cpu=True, mixed_precision="no")
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture
def accelerator() -> Iterator[Accelerator]:
    """One process on the CPU in fp32; accelerate's state is that of a fresh process again after."""
    with _one_process() as made:
        yield made


@pytest.fixture(scope="session")
def one_process() -> Callable[[], contextlib.AbstractContextManager[Accelerator]]:
    """The same as a context manager, for fixtures that several tests share."""
    return _one_process


@pytest.fixture(scope="session")
def tiny_tokens() -> Callable[..., Tokens]:
    """Random sentences in memory: `tiny_tokens(number, shortest=9, longest=16, seed=0)`.

    Ids 0 and 2 stand around each; the others are 5 to 319 with frequencies that differ. Two
    sentences of the default lengths never fit into one row of 16 tokens.
    """
    from lingraft.tokenizer.shards import Tokens

    def made(number: int, shortest: int = 9, longest: int = 16, seed: int = 0) -> Tokens:
        generator = np.random.default_rng(seed)
        lengths = generator.integers(shortest, longest + 1, number)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
        ids = (5 + 315 * generator.random(int(lengths.sum())) ** 3).astype(np.uint16)
        ids[offsets[:-1].astype(np.int64)] = 0
        ids[offsets[1:].astype(np.int64) - 1] = 2
        return Tokens(ids, offsets, lengths.astype(np.int32))

    return made


@pytest.fixture
def tiny_job(tmp_path: Path, tiny_job_in: Callable[..., Job]) -> Callable[..., Job]:
    """A phase's job in this test's folder: `tiny_job("name", …)`, else as `tiny_job_in`."""
    return functools.partial(tiny_job_in, tmp_path)


@pytest.fixture(scope="session")
def tiny_job_in(tiny_tokens: Callable[..., Tokens]) -> Callable[..., Job]:
    """A phase's job for the tiny RoBERTa without translation layers, in its own folder.

    `tiny_job_in(parent, "name", phase={...}, hardware={...}, **fields)`: settings of the recipe's
    [[phases]] and [hardware], and fields of `Job`, to change. Three steps of 16 sentences.
    """
    from lingraft.models.families import FAMILIES
    from lingraft.recipe import Hardware, Phase
    from lingraft.training.data import Reading
    from lingraft.training.objectives.common import TokenIds
    from lingraft.training.phase import Job

    def made(
        parent: Path,
        name: str = "job",
        phase: dict[str, object] | None = None,
        hardware: dict[str, object] | None = None,
        **fields: object,
    ) -> Job:
        settings = {"name": "phase-1", "train": ["all"], "budget": {"value": 3}}
        settings |= {"batch": {"size": 16}, "masking": {"rate": 0.3}} | (phase or {})
        use = {"precision": "fp32", "row_tokens": 16, "log_steps": 1} | (hardware or {})
        folder = parent / name
        folder.mkdir(exist_ok=True)
        defaults = {
            "phase": Phase.model_validate(settings),
            "hardware": Hardware.model_validate(use),
            "vocabulary": TokenIds(320, 319, 1, (0, 1, 2, 3, 319)),
            "family": FAMILIES["roberta"], "itl_layers": frozenset[int](), "seed": 0,
            "folder": folder, "metrics_path": folder / "metrics.jsonl",
            "fingerprint": "made of these inputs",
        }  # fmt: skip
        chosen: Any = defaults | fields
        texts = chosen.pop("train", tiny_tokens(40)), chosen.pop("valid", tiny_tokens(20, seed=1))
        reading = Reading("", *texts, chosen["phase"].objective, chosen["phase"].masking)
        return Job(**({"readings": (reading,)} | chosen))

    return made
