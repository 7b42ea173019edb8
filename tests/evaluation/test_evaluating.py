from lingraft.evaluation.records import WORDS_FILE, read, word_blocks, word_metrics
from lingraft.rundir import Run


def test_the_stage_leaves_every_word_beside_its_averages_and_blocks(adapted):
    stage = Run(adapted("roberta")).stage("evaluation")
    result, records = stage.result(), read(stage.path / WORDS_FILE)
    assert len(records) == result["words"]["words"] + result["words"]["dropped"] > 0
    again = word_metrics(records)
    assert again["characters"] == result["words"]["characters"]
    assert abs(again["bits_per_character"] - result["words"]["bits_per_character"]) < 1e-4
    kept = result["blocks"]["words"]["bits_per_character"]
    assert [count for _, count in kept] == [
        count for _, count in word_blocks(records)["bits_per_character"]
    ]
