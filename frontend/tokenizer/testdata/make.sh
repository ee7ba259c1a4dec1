#!/bin/sh
# Makes what the tests compare with again: make.sh PYTHON WORKDIR
#
# That is the corpus, testdata/small, components.json.gz, and the golden file of
# the builtin model's tokenizer.
#
# PYTHON has tokenizers 0.23.2 and sentencepiece 0.2.3; WORKDIR has npm's tokenizers 0.23.2 installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python3 "$here/corpus.py" | gzip -9n > "$here/corpus.json.gz"
rm -rf "$here/small"
builtin=$(cd "$here/../../../protocol/modelfile/builtin" && pwd)
"$1" -B "$here/train.py" "$here/small"
"$1" -B "$here/train_text.py" "$here/small"
"$1" "$here/golden_spm.py" "$here/small" 5
cd "$2"
node "$here/golden.mjs" "$here/small" 5
gzip -9n "$here"/small/*/tokenizer.json "$here"/small/*/tokenizer.model
node "$here/components.mjs" | gzip -9n > "$here/components.json.gz"

mkdir -p builtin/builtin
cp "$builtin/tokenizer.json" builtin/builtin
node "$here/golden.mjs" builtin 5
mv builtin/builtin/golden.json.gz "$here/builtin.golden.json.gz"
