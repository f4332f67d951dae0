#!/bin/sh
# Measures the bundled model again: what results/, the page and the pictures say of it. README.md has the times.
#
#   DATA=data OLD=old/english sh results/measure.sh                  # everything, in the order below
#   DATA=data sh results/measure.sh vectors tasks                    # some parts
#
# DATA: the folder that docs/reproduce.md describes, with lm/ and domain/. OLD: the model that the new one replaces.
# tasks and report can be stopped and run again: finished runs stay in RUNS. Remove RUNS/law and RUNS/biology before
# finetuning is run again.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
RUNS=${RUNS:-runs}
MODEL=${MODEL:-english}
mkdir -p "$RUNS"

heldout() { # the first 12,000 tokens of each source's held-out text
    mkdir -p "$RUNS/heldout"
    for name in modern/wikipedia modern/simplewiki modern/press modern/science-law modern/web \
        enwik8 openstax frus gutenberg; do
        zstdcat "$DATA/lm/$name/heldout.txt.zst" | awk '{ print; n += NF } n >= 12000 { exit }' \
            >"$RUNS/heldout/$(basename "$name").txt"
    done
}

card() {
    heldout
    elmo paper card -m "$MODEL" ${OLD:+--compare-to "$OLD"} \
        --heldout wikipedia="$RUNS/heldout/wikipedia.txt" --heldout simplewiki="$RUNS/heldout/simplewiki.txt" \
        --heldout press="$RUNS/heldout/press.txt" --heldout science-law="$RUNS/heldout/science-law.txt" \
        --heldout web="$RUNS/heldout/web.txt" --heldout enwik8="$RUNS/heldout/enwik8.txt" \
        --heldout openstax="$RUNS/heldout/openstax.txt" --heldout frus="$RUNS/heldout/frus.txt" \
        --heldout gutenberg="$RUNS/heldout/gutenberg.txt" \
        --pos "$DATA/ud/EWT" --senses "$DATA/wsd" --wordnet "$DATA/wordnet-3.0/dict.tar.zst" \
        -o results --name default_model
}

vectors() { # static word vectors for both arms of the tasks, from the text of the biLM
    [ -e "$RUNS/vectors.txt" ] ||
        elmo task vectors "$DATA/lm/modern/*/train*.txt.zst" --epochs 3 --threads 1 -o "$RUNS/vectors.txt"
}

tasks() { # two processes share the runs, one on each core
    elmo paper tasks results/tasks.plan.toml --data "$DATA" --vectors "$RUNS/vectors.txt" --runs "$RUNS/tasks" \
        -m "$MODEL" --threads 1 -o "$RUNS/second" &
    elmo paper tasks results/tasks.plan.toml --data "$DATA" --vectors "$RUNS/vectors.txt" --runs "$RUNS/tasks" \
        -m "$MODEL" --threads 1 -o results
    wait $!
}

report() { # takes the runs of `tasks` for table 1
    elmo paper report --data "$DATA" --vectors "$RUNS/vectors.txt" --runs "$RUNS/tasks" \
        --ablate entailment,semantic_roles -m "$MODEL" --threads 1 -o "$RUNS/second" &
    elmo paper report --data "$DATA" --vectors "$RUNS/vectors.txt" --runs "$RUNS/tasks" \
        --ablate entailment,semantic_roles -m "$MODEL" --threads 1 -o results/paper
    wait $!
}

finetuning() { # results/finetuning.md has the figures that this prints
    elmo finetune -m "$MODEL" --train "$DATA/domain/dc-code/train.txt.zst" --tokenized \
        --heldout "$DATA/domain/dc-code/heldout.txt.zst" -o "$RUNS/law" \
        --set training.precision=bfloat16 --set softmax.negatives=2048 --set training.evaluate_every=10000
    elmo finetune -m "$MODEL" --train "$DATA/domain/openstax-biology/train.txt.zst" --tokenized \
        --heldout "$DATA/domain/openstax-biology/heldout.txt.zst" -o "$RUNS/biology" \
        --set training.precision=bfloat16 --set softmax.negatives=2048
    cat "$RUNS/law/run/before_after.json" "$RUNS/biology/run/before_after.json"
}

spacy() {
    python benchmarks/bench_spacy_ner.py "$DATA/ner/uner-ewt" --minutes 4 -o results
}

pictures() { # the picture of the README, and the examples of the page
    python docs/images/senses.py
    python examples/page/choose_examples.py "$MODEL"
    python examples/demo.py
}

: "${DATA:?expected the folder with the data: DATA=data sh results/measure.sh}"
for part in ${@:-card vectors tasks report finetuning spacy pictures}; do
    "$part"
done
