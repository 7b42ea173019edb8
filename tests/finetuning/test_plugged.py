"""Fine-tuning with cross-attention plugged in: what is read with what, and what is learnt."""

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import tasks_of_languages as made
import torch

import lingraft
from lingraft.errors import DataError, RecipeError
from lingraft.finetuning import cells, heads, partners
from lingraft.finetuning.coders.common import Shape, collate
from lingraft.finetuning.outcomes import outcomes, predictions
from lingraft.finetuning.problem import PARTNER, TASK, Finetuning
from lingraft.finetuning.recipe import PlugIn, decode_finetune
from lingraft.models import cross_attention, loading
from lingraft.models.families import FAMILIES
from lingraft.models.modules import MODULES
from lingraft.tasks import TASKS
from lingraft.tasks.examples import Answer, SpanExample, TaggedExample, TextExample

CROSS = MODULES["cross_attention"]
SETTINGS = "epochs=1,batch=4,learning_rate=0.002,max_length=48,warmup=0,checks_per_epoch=1"
PAIRS = {
    "pawsx-ko": [
        (
            TextExample("0", "나는 책을 읽었다", "책", "1"),
            TextExample("0", "a book", "read it", "1"),
        ),
        (
            TextExample("1", "친구", "학교에", "0"),
            TextExample("1", "a friend at school", "no", "0"),
        ),
    ],
    "klue-sts": [
        (TextExample("0", "책", "친구", score=2.0), TextExample("0", "book one", "b", score=2.0)),
        (TextExample("1", "나는 책을", "나", score=1.0), TextExample("1", "a", "b", score=1.0)),
    ],
    "panx-ko": [
        (
            TaggedExample("0", ("나는", "책을", "읽었다"), ("B-PER", "O", "O")),
            TaggedExample("0", ("I", "read"), ("B-PER", "O")),
        ),
        (
            TaggedExample("1", ("친구",), ("O",)),
            TaggedExample("1", ("a", "friend", "of", "mine"), ("O", "O", "O", "B-ORG")),
        ),
    ],
    "xquad-de": [
        (
            SpanExample("0", "Wer?", "das ist ein Haus", (Answer("Haus", 12),)),
            SpanExample("0", "Who?", "this is a house", (Answer("house", 10),)),
        ),
        (
            SpanExample("1", "Was?", "ein Baum", (Answer("Baum", 4),)),
            SpanExample("1", "What?", "a tree of the house", (Answer("tree", 2),)),
        ),
    ],
}
every_kind = pytest.mark.parametrize("name", PAIRS)


@pytest.fixture
def veco(tiny_model, tiny_tokenizer, tmp_path):
    """The folder of a tiny model with cross-attention whose weights matter: `veco(family)`."""

    def written(family="xlm-roberta", **changes):
        folder = tmp_path / f"veco-{family}"
        model = tiny_model(family, **changes)
        depth = len(list(model.get_submodule(FAMILIES[family].layers).children()))
        cross_attention.insert(model, FAMILIES[family], depth)
        generator = torch.Generator().manual_seed(9)
        for tensor in loading.own_tensors(model, CROSS).values():
            tensor.normal_(0.0, 0.3, generator=generator)
        loading.save(model, folder)
        tiny_tokenizer(family).save_pretrained(folder)
        return folder

    return written


@pytest.fixture
def problem(veco):
    """A tiny model that is plugged in, without dropout, on two pairs: `problem(task)`."""

    def built(name, family="xlm-roberta", alone=False, **plug_in):
        folder, task = veco(family), TASKS[name]
        task = replace(task, spans=task.spans and replace(task.spans, doc_stride=16))
        tokenizer = heads.tokenizer_for(folder, task)
        model = heads.build(folder, task, tokenizer, 0, PlugIn(**plug_in))
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        shape = Shape(tokenizer, tokenizer.pad_token_id, 48, family == "bert")
        coder = heads.CODERS[task.kind](task, shape)
        there = {} if alone else {own.id: other for own, other in PAIRS[name]}
        items = partners.items(coder, [own for own, _ in PAIRS[name]], there)
        return Finetuning(model, coder, shape, items, [], 4_096)

    return built


def batch_of(made, items=None, predict=True):
    return collate(made.coder, made.shape, items or made.items, predict=predict)


def outputs_of(made, items=None):
    made.module.eval()
    with torch.no_grad():
        _, outputs = made.module(batch_of(made, items))
    return torch.cat([one.flatten() for one in outputs.values()])


@every_kind
@pytest.mark.parametrize("family", ["xlm-roberta", "bert", "modernbert"])
def test_the_loss_is_the_mean_of_the_two_sides_losses(name, family, problem):
    """Each side predicted from [H ; S] by itself, through the same head, in plain passes."""
    made = problem(name, family)
    made.module.eval().requires_grad_(False)
    model, coder, items = made.model, made.coder, made.items
    step = made.step(np.arange(2), 0, 0, 1)
    losses = [made.module(batch) for batch in step.micro_batches]
    ours = sum(
        sum(float(one[term].nats) for one in losses) / step.targets[term]
        for term in (TASK, PARTNER)
    )
    sides = []
    for own, other in (
        (items, [one.partner for one in items]),
        ([one.partner for one in items], items),
    ):
        nats = count = 0
        for x, y in zip(own, other, strict=True):
            a, b = (batch_of(made, [one]).inputs for one in (x, y))
            h, memory = model.model.base_model(**a)[0], model.model.base_model(**b)[0]
            mask = torch.zeros(1, 1, h.shape[1], memory.shape[1])
            plugged = {cross_attention.MEMORY: memory, cross_attention.MASK: mask}
            s = model.model.base_model(**a, **plugged)[0]
            outputs = model.head(torch.cat([h, s], -1))
            nats += float(coder.loss(outputs, coder.targets([x], len(x.ids))))
            count += coder.count(x)
        sides.append(nats / count)
    assert ours == pytest.approx(sum(sides) / 2, rel=1e-4)
    assert sides[0] != pytest.approx(sides[1], rel=1e-5)


@every_kind
def test_the_partner_matters_and_is_not_the_input_itself(name, problem):
    made, alone = problem(name), problem(name, alone=True)
    assert not torch.allclose(outputs_of(made), outputs_of(alone), atol=1e-4)
    for item in alone.items:
        assert (item.partner.ids == item.ids).all()


@every_kind
def test_the_partner_s_padding_is_not_seen(name, problem):
    made = problem(name)
    one, other = made.items
    together = made.coder.collect(outputs_dict(made, [one, other]), [one, other])
    apart = [made.coder.collect(outputs_dict(made, [item]), [item])[0] for item in (one, other)]
    assert len(one.partner.ids) != len(other.partner.ids)
    for first, second in zip(together, apart, strict=True):
        np.testing.assert_allclose(np.array(first), np.array(second), atol=1e-4)


def outputs_dict(made, items):
    made.module.eval()
    with torch.no_grad():
        return made.module(batch_of(made, items))[1]


def test_cross_attention_learns_from_labels_and_the_head_for_masked_words_stays(problem):
    made = problem("pawsx-ko")
    (loss, *_) = [made.module(batch) for batch in made.step(np.arange(2), 0, 0, 1).micro_batches]
    (loss[TASK].nats + loss[PARTNER].nats).backward()
    named = dict(made.model.model.named_parameters())
    for name, parameter in named.items():
        if CROSS.owns(name) and not name.endswith("key.bias"):  # softmax does not see it
            assert parameter.grad.abs().sum() > 0, name
        if name.startswith("lm_head") and name != "lm_head.decoder.weight":  # the embeddings
            assert parameter.grad is None
    assert made.trainable < sum(parameter.numel() for parameter in made.model.parameters())


def test_stop_gradient_keeps_the_partner_s_states_constant(problem):
    """With a head that reads S alone, x's loss reaches y's words through cross-attention only."""
    for stop in (False, True):
        made = problem("pawsx-ko", stop_gradient=stop)
        with torch.no_grad():
            made.model.head.dense.weight[:, : made.model.model.config.hidden_size].zero_()
        losses = made.module(batch_of(made, predict=False))
        losses[TASK].nats.backward()
        gradient = made.model.model.get_input_embeddings().weight.grad
        own = {int(i) for item in made.items for i in item.ids}
        theirs = sorted({int(i) for item in made.items for i in item.partner.ids} - own)
        assert theirs
        assert bool(gradient[theirs].abs().sum() == 0) is stop


def test_without_an_output_cross_attention_only_norms(problem):
    """Pre-norm: S is H. Post-norm: S is H of a model that norms what self-attention gives twice."""
    made = problem("pawsx-ko", "modernbert")
    with torch.no_grad():
        for name, tensor in made.model.named_parameters():
            if "crossattention.output.dense" in name:
                tensor.zero_()
    batch = batch_of(made)
    with torch.no_grad():
        h, memory = (made.model.states(one) for one in (batch.inputs, batch.partner.inputs))
        s = made.model.states(batch.inputs, **made.model.read_with(memory, batch.partner.inputs))
    torch.testing.assert_close(s, h)
    made = problem("pawsx-ko", "xlm-roberta")
    with torch.no_grad():
        for name, tensor in made.model.named_parameters():
            if "crossattention.output.dense" in name:
                tensor.zero_()
            if "crossattention.output.LayerNorm" in name:
                tensor.fill_(1.0 if name.endswith("weight") else 0.0)
        batch = batch_of(made)
        h, memory = (made.model.states(one) for one in (batch.inputs, batch.partner.inputs))
        s = made.model.states(batch.inputs, **made.model.read_with(memory, batch.partner.inputs))
        hooks = [
            layer.attention.register_forward_hook(
                lambda layer, _, out: (
                    torch.nn.functional.layer_norm(out[0], out[0].shape[-1:], eps=1e-12),
                    *out[1:],
                )
            )
            for layer in made.model.model.base_model.encoder.layer
        ]
        twice = made.model.states(batch.inputs)
        for hook in hooks:
            hook.remove()
    torch.testing.assert_close(s, twice, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(s, h)


@every_kind
def test_what_was_saved_is_built_again_with_its_head(name, problem, tmp_path):
    made = problem(name)
    before = outputs_of(made)
    made.save(tmp_path / "best")
    task, plug_in = TASKS[name], PlugIn()
    again = heads.build(tmp_path / "best", task, made.shape.tokenizer, 7, plug_in)
    other = Finetuning(again, made.coder, made.shape, made.items, [], 4_096)
    assert torch.equal(outputs_of(other), before)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    heads.restore(again, tmp_path / "best")
    assert torch.equal(outputs_of(other), before)
    assert loading.own_tensors(lingraft.load(tmp_path / "best"), CROSS)


# -- through the command


ROWS = [
    (f"{n}", f"word {n % 5} here", f"word {(n + n % 2) % 5} there", str(n % 2)) for n in range(16)
]
KOREAN = [(i, a.replace("word", "말"), b.replace("word", "말"), label) for i, a, b, label in ROWS]


def write_pawsx(folder, splits=("train", "dev", "test")):
    """PAWS-X as data/ has it: JSONL, the same ids in all languages; Korean lacks one."""
    folder.mkdir()
    for split in splits:
        for language, rows in (("en", ROWS), ("ko", KOREAN[1:])):
            lines = [
                json.dumps({"id": i, "sentence1": a, "sentence2": b, "label": int(label)})
                for i, a, b, label in rows
            ]
            path = folder / f"{split}-{language}.jsonl"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture
def run(veco, command):
    """Fine-tunes a tiny model plugged in: `run(out, *arguments)`."""

    def called(out, *arguments, plug=("--plug", "in"), settings=SETTINGS):
        start = ("finetune", veco(), "--label", "M", "--seeds", 1, "--out", out)
        return command(*start, "--set", settings, *plug, *arguments)

    return called


def test_aligned_languages_are_read_in_pairs_and_a_kept_model_says_the_same(
    run, tmp_path, accelerator
):
    data = write_pawsx(tmp_path / "data")
    task = ("--task", "pawsx", "--data", data, "--train-language", "en,ko")
    ended = run(tmp_path / "out", *task, "--test-languages", "ko", "--keep-models")
    assert ended.status == 0, ended.err
    (found,) = outcomes(tmp_path / "out")
    assert found.model_label == "M (plugged in)"
    assert found.folder.parents[1].name == "M-plugged-in"
    assert "M (plugged in)" in ended.out
    assert found.data["train_examples"] == 15
    assert found.data["plug_in"]["read"]["train"] == "each with its translation"
    assert found.data["plug_in"]["read"]["test-ko"] == "each with itself"
    recipe = {"models": [str(found.folder / "best")], "tasks": ["pawsx"], "data": str(data)}
    recipe |= {"train_languages": ["en", "ko"], "test_languages": ["ko"], "plug": "in"}
    (cell,) = cells.plan(decode_finetune(recipe, [SETTINGS]), tmp_path)
    tokenizer = heads.tokenizer_for(cell.folder, cell.task)
    model = heads.build(cell.folder, cell.task, tokenizer, 3, cell.plug_in)
    shape = Shape(tokenizer, tokenizer.pad_token_id, 48, False)
    coder = heads.CODERS["pair"](cell.task, shape)
    examples = cell.data.splits["test-ko"]
    items = partners.items(coder, examples, cell.data.partners["test-ko"])
    problem = Finetuning(model, coder, shape, items, [], 4_096)
    said, _ = problem.predict(problem.module, accelerator, examples, items)
    assert said == predictions(found, "test-ko")
    rows = [json.loads(line) for line in (found.folder / "metrics.jsonl").read_text().splitlines()]
    learnt = [row for row in rows if row["kind"] == "train"]
    assert learnt
    for row in learnt:
        assert row["loss"] == pytest.approx(row["loss/task"] + row["loss/partner"])


def test_plugged_out_is_what_it_was_and_both_are_compared(run, tmp_path, command):
    data = write_pawsx(tmp_path / "data")
    task = ("--task", "pawsx", "--data", data, "--train-language", "en,ko")
    assert run(tmp_path / "out", *task).status == 0
    assert run(tmp_path / "out", *task, plug=()).status == 0
    assert run(tmp_path / "again", *task, plug=("--plug", "out")).status == 0
    out, plugged = outcomes(tmp_path / "out")
    (again,) = outcomes(tmp_path / "again")
    assert (out.model_label, plugged.model_label) == ("M", "M (plugged in)")
    assert out.fingerprint == again.fingerprint != plugged.fingerprint
    assert "plug_in" not in out.data
    assert "plug_in" not in json.loads((out.folder / "inputs").read_text())
    compared = command("compare", tmp_path / "out", "--reference", "M")
    assert compared.status == 0, compared.err
    assert "M (plugged in)" in compared.out


def test_a_cut_puts_translations_on_the_same_side(veco, tmp_path):
    write_pawsx(tmp_path / "data", ("dev", "test"))
    recipe = {"models": [str(veco())], "tasks": ["pawsx"], "data": "data", "plug": "in"}
    recipe |= {"train_languages": ["en", "ko"], "cut": {"train": 0.75, "dev": 0.25}}
    (cell,) = cells.plan(decode_finetune(recipe, ["plug_in.test_partner=original"]), tmp_path)
    ids = {split: {one.id for one in part} for split, part in cell.data.splits.items()}
    learnt = {one.removeprefix("ko/") for one in ids["train"]}
    assert learnt
    assert not learnt & (ids["dev-ko"] | ids["dev-en"])
    assert {other.text for other in cell.data.partners["train"].values()} <= {
        a for _, a, _, _ in ROWS
    }
    there = cell.data.partners["test-ko"]
    assert (len(there), there["3"].text) == (15, ROWS[3][1])
    assert not cell.data.partners["test-en"]


def test_xtreme_s_translated_training_files_are_read(veco, tmp_path):
    folder = tmp_path / "data" / "PAWSX" / "translate-train"
    folder.mkdir(parents=True)
    lines = [
        "\t".join((*own[1:3], *other[1:3], own[3])) for own, other in zip(ROWS, KOREAN, strict=True)
    ]
    (folder / "en-ko-translated.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_pawsx(tmp_path / "data" / "pawsx", ("dev", "test"))
    recipe = {"models": [str(veco())], "tasks": ["pawsx"], "data": "data", "plug": "in"}
    recipe |= {"train_languages": ["ko"], "test_languages": ["ko"]}
    (cell,) = cells.plan(decode_finetune(recipe), tmp_path)
    first = cell.data.splits["train"][0]
    partner = cell.data.partners["train"][first.id]
    assert (first.text, first.label) == (KOREAN[0][1], "0")
    assert (partner.text, partner.pair, partner.label) == (*ROWS[0][1:3], "0")


OWN = """
name = "mood"
kind = "classification"
labels = ["no", "yes"]
files = { train = "train.csv", dev = "dev.csv", test = "dev.csv" }
"""


def write_own(folder, translated=True):
    more = ",translation" if translated else ""
    rows = [f"{n},text {n},{('no', 'yes')[n % 2]}" for n in range(8)]
    train = [f"{row},말 {n}" if translated else row for n, row in enumerate(rows)]
    (folder / "train.csv").write_text("\n".join([f"id,text,label{more}", *train]), encoding="utf-8")
    (folder / "dev.csv").write_text("\n".join(["id,text,label", *rows]), encoding="utf-8")
    (folder / "mood.toml").write_text(OWN, encoding="utf-8")
    return folder / "mood.toml"


def test_a_task_of_one_s_own_has_a_column_of_translations_or_files_of_them(run, tmp_path):
    path = write_own(tmp_path)
    assert run(tmp_path / "out", "--task", path).status == 0
    (found,) = outcomes(tmp_path / "out")
    assert found.data["plug_in"]["read"]["train"] == "each with its translation"
    assert found.data["plug_in"]["read"]["test"] == "each with itself"
    write_own(tmp_path, translated=False)
    (tmp_path / "other.csv").write_text("id,text\n" + "".join(f"{n},말 {n}\n" for n in range(6)))
    path.write_text(OWN + 'translations = { train = "other.csv", test = "other.csv" }\n')
    assert run(tmp_path / "files", "--task", path).status == 0
    (found,) = outcomes(tmp_path / "files")
    assert found.data["train_examples"] == 6
    assert found.data["plug_in"]["read"]["test"].startswith("6 of 8 with the translation, ")


def test_a_killed_seed_goes_on_to_the_result_of_a_straight_run(run, tmp_path, monkeypatch):
    task = ("--task", write_own(tmp_path), "--keep-models", "--set", "epochs=2")
    assert run(tmp_path / "straight", *task).status == 0
    step, calls = Finetuning.step, []

    def killed(self, *arguments):
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Finetuning, "step", killed)
        assert run(tmp_path / "killed", *task).status == 143
    assert run(tmp_path / "killed", *task).status == 0
    files = ("plugged.safetensors", "model.safetensors", "cross_attention.safetensors")
    straight, again = (
        [
            (tmp_path / name / "M-plugged-in" / "mood" / "seed-0" / "best" / file).read_bytes()
            for file in files
        ]
        for name in ("straight", "killed")
    )
    assert straight == again


def write_untagged(folder):
    """English sentences with tags, and Korean ones of the same ids without."""
    path = made.write_tagging(folder)
    rows = [json.loads(line) for line in (folder / "train-ko.jsonl").read_text().splitlines()]
    words = "".join(json.dumps({"words": row["words"]}) + "\n" for row in rows)
    (folder / "untagged.jsonl").write_text(words, encoding="utf-8")
    own = made.TAGGING.replace('languages = ["en", "de", "ko"]\n', "").replace("{lang}", "en")
    alone = path.with_name("alone.toml")
    more = 'labels = ["D", "N", "V"]\ntranslations = { train = "untagged.jsonl" }\n'
    alone.write_text(own + more, encoding="utf-8")
    return alone


@pytest.mark.parametrize("temperature", [None, 0.5])
def test_a_teacher_tags_translations(temperature, run, tmp_path, monkeypatch):
    path = write_untagged(tmp_path / "data")
    refused = run(tmp_path / "out", "--task", path)
    assert "have no tags" in refused.err
    assert run(tmp_path / "english", "--task", path, "--keep-models", plug=()).status == 0
    (taught,) = outcomes(tmp_path / "english")
    read = []
    items = partners.items

    def noted(coder, examples, there, teacher=None):
        found = items(coder, examples, there, teacher)
        read.append((teacher, coder, found))
        return found

    monkeypatch.setattr(partners, "items", noted)
    settings = SETTINGS + (f",plug_in.temperature={temperature}" if temperature else "")
    arguments = ("--task", path, "--teacher", taught.folder / "best")
    ended = run(tmp_path / "out", *arguments, settings=settings)
    assert ended.status == 0, ended.err
    ((teacher, coder, found),) = [one for one in read if one[0] is not None]
    with torch.no_grad():
        batch = collate(coder, teacher.shape, [found[0].partner], predict=True)
        logits = teacher.model.eval()(**batch.inputs).logits[0]
    target = np.array(found[0].partner.target)
    counted = target >= 0
    assert (logits.argmax(-1).numpy()[counted] == target[counted]).all()
    assert (found[0].partner.soft is None) is (temperature is None)
    if temperature:
        wanted = (logits / temperature).softmax(-1).numpy()
        np.testing.assert_allclose(found[0].partner.soft, wanted, atol=1e-5)
        loss = coder.loss({"logits": logits[None]}, batch.targets)
        every = -(torch.tensor(wanted) * logits.log_softmax(-1)).sum(-1)
        assert float(loss) == pytest.approx(float(every[torch.tensor(counted)].sum()), rel=1e-5)


def test_ids_and_labels_that_do_not_belong_together_are_refused(tmp_path, veco):
    path = write_own(tmp_path, translated=False)
    path.write_text(OWN + 'translations = { train = "other.csv" }\n')
    recipe = decode_finetune({"models": [str(veco())], "tasks": [str(path)], "plug": "in"})
    other = tmp_path / "other.csv"
    other.write_text("id,text,label\n" + "".join(f"x{n},말,no\n" for n in range(8)))
    with pytest.raises(DataError, match="no example of train has the id of a translation"):
        cells.plan(recipe, tmp_path)
    other.write_text("id,text,label\n" + "".join(f"{n},말,no\n" for n in range(8)))
    with pytest.raises(DataError, match="4 of 8 examples of train have another label"):
        cells.plan(recipe, tmp_path)


def test_settings_of_what_is_plugged_in_need_it():
    with pytest.raises(RecipeError, match="say so"):
        decode_finetune({"models": ["m"], "tasks": ["t"]}, ["plug_in.stop_gradient=true"])
