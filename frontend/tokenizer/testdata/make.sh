#!/bin/sh
# Makes what the tests compare with again: make.sh PYTHON WORKDIR
#
# That is the corpus, testdata/small, components.json.gz, and the golden file of
# the builtin model's tokenizer.
#
# PYTHON has tokenizers 0.23.2; WORKDIR has npm's tokenizers 0.23.2 installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python3 "$here/corpus.py" | gzip -9n > "$here/corpus.json.gz"
rm -rf "$here/small"
builtin=$(cd "$here/../../../protocol/modelfile/builtin" && pwd)
"$1" "$here/train.py" "$here/small"
cd "$2"
node "$here/golden.mjs" "$here/small" 5
gzip -9n "$here"/small/*/tokenizer.json
node "$here/components.mjs" | gzip -9n > "$here/components.json.gz"

mkdir -p builtin/builtin
cp "$builtin/tokenizer.json" builtin/builtin
node "$here/golden.mjs" builtin 5
mv builtin/builtin/golden.json.gz "$here/builtin.golden.json.gz"
