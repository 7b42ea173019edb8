"""What is wrong about training in one language and scoring in others."""

ROW = '{{"id": "{}", "sentence1": "a b", "sentence2": "b a", "label": "{}"}}\n'
CALL = ["finetune", "source", "--task", "pawsx", "--data", "data", "--train-language"]


def split(place, name, labels="01"):
    place.write(f"data/{name}.jsonl", "".join(ROW.format(i, one) for i, one in enumerate(labels)))


def files(place, *names):
    place.source()
    for name in names:
        split(place, name)


def unknown_test_language(place):
    files(place, "train-en", "dev-en", "test-en")
    return [*CALL, "en", "--test-languages", "ko,tlh"]


def unknown_train_language(place):
    files(place, "train-en")
    return [*CALL, "tlh"]


def no_training_file(place):
    files(place, "dev-ko", "test-ko", "test-de")
    return [*CALL, "ko", "--test-languages", "de"]


def no_test_file(place):
    files(place, "train-en", "dev-en", "test-en", "dev-ko")
    return [*CALL, "en", "--test-languages", "ko"]


def hidden_labels(place):
    files(place, "train-en", "dev-en", "test-en")
    place.write("data/test-ko.jsonl", '{"id": "0", "sentence1": "a b", "sentence2": "b a"}\n')
    return [*CALL, "en", "--test-languages", "ko"]


def no_development_file(place):
    files(place, "train-en", "dev-en", "test-en", "test-ko")
    return [*CALL, "en", "--test-languages", "ko", "--select-on", "mean"]


def one_language(place):
    files(place, "train-en")
    return ["finetune", "source", "--task", "klue-nli", "--data", "data", "--train-language", "ko"]


def record_of_a_language(place):
    files(place, "train-en")
    return ["finetune", "source", "--task", "pawsx-ko", "--data", "data", "--train-language", "en"]


def no_train_language(place):
    place.source()
    return ["finetune", "source", "--task", "pawsx", "--data", "data", "--test-languages", "ko"]


def group_alone(place):
    place.source()
    return ["finetune", "source", "--task", "pawsx", "--data", "data"]


def twice(place):
    place.source()
    return [*CALL, "en,de,en"]


def three_shares(place):
    files(place, "dev-en", "test-en")
    return [*CALL, "en", "--cut", "0.8,0.1,0.1"]


def nothing_to_cut(place):
    files(place, "test-en", "test-ko")
    return [*CALL, "en", "--cut", "0.9,0.1"]


def own_without_languages(place):
    place.source()
    place.write("mood.toml", 'name = "mood"\nkind = "classification"\nfiles = {train = "a.csv"}\n')
    return ["finetune", "source", "--task", "mood.toml", "--train-language", "en"]


def add(cases):
    cases |= {
        "a transfer to a language that the task has not": unknown_test_language,
        "a transfer from a language that the task has not": unknown_train_language,
        "a transfer from a language without training file": no_training_file,
        "a transfer to a language without test file": no_test_file,
        "a transfer to a test set with hidden labels": hidden_labels,
        "a choice by a language without development set": no_development_file,
        "a transfer of a task in one language": one_language,
        "a transfer of a task's record of one language": record_of_a_language,
        "test languages without a training language": no_train_language,
        "a task of several languages without a training language": group_alone,
        "a training language that is named twice": twice,
        "a transfer with a cut in three": three_shares,
        "a transfer whose cut would take a test set": nothing_to_cut,
        "a transfer of one's own task without languages": own_without_languages,
    }
