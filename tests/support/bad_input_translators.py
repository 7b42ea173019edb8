"""What is wrong about fine-tuning on translation."""

import json

import tiny_translators as tiny


def call(place, *more, text="", pairs=tiny.PAIRS, kind="bart", **changes):
    """`lingraft finetune model --task task/ko-en.toml`, with changes of the task's file."""
    tiny.write_task(place.folder / "task", pairs, text)
    if kind:
        tiny.save(place.folder / "model", kind, **changes)
    return ["finetune", "model", "--task", "task/ko-en.toml", *more]


def encoder(place):
    place.source().rename(place.folder / "model")
    return call(place, kind=None)


def no_start(place):
    arguments = call(place)
    for name in ("config.json", "generation_config.json"):
        path = place.folder / "model" / name
        kept = json.loads(path.read_text())
        kept.pop("decoder_start_token_id", None)
        path.write_text(json.dumps(kept))
    return arguments


def copies(place):
    arguments = call(place)
    path = place.folder / "task" / "ko-en.toml"
    path.write_text(path.read_text().replace('pair = "en"', 'pair = "ko"'))
    return arguments


def swapped(place):
    arguments = call(place)
    path = place.folder / "task" / "ko-en.toml"
    path.write_text(
        path.read_text().replace('text = "ko", pair = "en"', 'text = "en", pair = "ko"')
    )
    return arguments


def add(cases):
    """Put the cases into the table of bad_input_cases.py."""
    cases["translation with an encoder alone"] = encoder
    cases["a translator that has no first token"] = no_start
    cases["a pair with an empty side"] = lambda place: call(place, pairs=[*tiny.PAIRS, ("책", " ")])
    cases["pairs with the same text on both sides"] = copies
    cases["pairs whose columns are swapped"] = swapped
    cases["pairs that are all too long"] = lambda place: call(
        place, "--set", "max_length=8", pairs=[("책을 읽었다 " * 9, "read a book " * 9)] * 30
    )
    cases["languages for a tokenizer that has none"] = lambda place: call(
        place, text='codes = ["ko_KR", "en_XX"]\n'
    )
    cases["a score that translations do not have"] = lambda place: call(
        place, text='metrics = ["accuracy"]\n'
    )
