#!/usr/bin/env bash
# The study of research/pages/translation-study.md: translators from random weights, from masked words and from VECO.
#
#   bash research/scripts/translation_study.sh ko 2    # Korean: two seeds of fine-tuning, both directions
#   bash research/scripts/translation_study.sh de 1    # German
#   python research/scripts/translation_page.py --collect runs/translation
#
# Needs the folders of text under data/ (research/README.md). Goes on where it was stopped. German runs by the same recipes, with its own text
# and folders: build/translation-de in the place of build/translation, runs/de-… in the place of runs/….
set -euo pipefail
language=$1
seeds=$2
text=build/translation
prefix=""
if [ "$language" != ko ]; then
    text=build/translation-$language
    prefix=$language-
fi
run=runs/${prefix}veco
settings="steps=400 batch=1024 check_every=100 max_length=64 learning_rate=1e-3 dropout=0.0 attention_dropout=0.0 average_last=0 beams=1"

[ -f $text/counts.json ] || python research/scripts/build_translation_data.py data $text --language $language
adapt() {
    mkdir -p build/recipes
    sed -e "s#\"ko\"#\"$language\"#g; s#en/ko#en/$language#; s#en-ko#en-$language#g; s#build/translation/ko#build/translation/$language#g" \
        -e "s#build/translation#$text#g; s#runs/veco#$run#g" research/recipes/veco-$1.toml >build/recipes/$prefix$1.toml
    lingraft adapt build/recipes/$prefix$1.toml --out $run-$1 --update
}
[ -d $run-vocabulary/tokenizer ] || adapt vocabulary
[ -d $text-start ] || python research/scripts/build_translation_source.py $run-vocabulary/tokenizer $text-start
[ -d $run-base/model ] || adapt base
adapt pairs
adapt mlm

declare -A start=([random]=$text-start [mlm]=$run-mlm/model [veco]=$run-pairs/model)
for system in random mlm veco; do
    [ -d $run-translator-$system ] ||
        lingraft convert seq2seq ${start[$system]} --out $run-translator-$system decoder_layers=3
done
for direction in $language-en en-$language; do
    for system in mlm veco random; do
        lingraft finetune $run-translator-$system --label $system-s0 --task research/recipes/tasks/$direction-help.toml --seeds $seeds \
            paper=small keep_models=true $settings --out runs/translation --update
        for test in pud tatoeba; do
            [ $direction = $language-en ] && column=2 || column=1
            cut -f $column $text/test-$test.tsv >build/recipes/$prefix$test-$direction.txt
            for seed in $(seq 0 $((seeds - 1))); do
                folder=runs/translation/$system-s0/$direction-help/seed-$seed
                [ -f $folder/$test.txt ] || lingraft translate $folder/best --text build/recipes/$prefix$test-$direction.txt \
                    --out $folder/$test.txt beams=1 max_new_tokens=64
            done
        done
        echo "$direction $system done: $(date)"
    done
done

# A task on pairs, plugged in and out: PAWS-X, trained on nine tenths of its English and Korean development files.
if [ "$language" = ko ]; then
    for plug in in out; do
        lingraft finetune $run-pairs/model --label veco --task pawsx --train-language en ko --test-language en ko --data data cut.train=0.9 cut.dev=0.1 \
            --seeds 2 plug=$plug epochs=1 batch=16 learning_rate=3e-4 max_length=96 --out runs/plugged --update
    done
fi
