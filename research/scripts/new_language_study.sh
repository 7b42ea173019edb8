#!/usr/bin/env bash
# A fifth language for an M2M of four: a code of its own beside a borrowed one (research/pages/log.md, 2026-11-29).
#
#   bash research/scripts/new_language_study.sh build/new-language runs/new-language old-new-mean old-borrowed old-borrowed-pairs
#
# Needs data/par_libreoffice_help (research/README.md). Goes on where it was stopped. Variants: [old-]{new-mean,new-french,borrowed,borrowed-pairs}.
# With raw text there are two stages of so many steps; without it, one of twice as many.
set -euo pipefail
text=$1
out=$2
shift 2
shared=(--seeds 1 keep_models=true batch=2048 "betas=[0.9,0.98]" max_length=40 beams=1)
[ -f "$text/start/config.json" ] || python research/scripts/build_new_language_data.py data "$text"
base=$out/base/start/base/seed-0/best
[ -f "$base/../done.json" ] ||
    lingraft finetune "$text/start" --task "$text/base.toml" --out "$out/base" steps=2800 learning_rate=2e-3 check_every=700 "${shared[@]}"
score() { # MODEL NAME: what is left of English to French
    [ -f "$out/$2.fr" ] ||
        lingraft translate "$1" --text "$text/old.en" --out "$out/$2.fr" source_language=eng_Latn target_language=fra_Latn beams=1 max_new_tokens=40
    echo "$2, English to French: $(sacrebleu "$text/old.fr" -i "$out/$2.fr" -m chrf --chrf-word-order 2 -b)"
}
score "$base" base
for name in "$@"; do
    steps=440
    [[ $name != *-pairs ]] || steps=880
    lingraft finetune "$base" --task "$text/$name.toml" --out "$out/new" --label base steps=$steps learning_rate=1e-3 check_every=220 "${shared[@]}"
    score "$out/new/base/$name/seed-0/best" "$name"
done
