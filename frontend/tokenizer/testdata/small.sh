#!/bin/sh
# Makes testdata/small again: small.sh PYTHON WORKDIR
# PYTHON has tokenizers 0.23.2; WORKDIR has npm's tokenizers 0.23.2 installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python3 "$here/corpus.py" | gzip -9n > "$here/corpus.json.gz"
rm -rf "$here/small"
"$1" "$here/train.py" "$here/small"
cd "$2"
node "$here/golden.mjs" "$here/small" 4
gzip -9n "$here"/small/*/tokenizer.json
node "$here/components.mjs" | gzip -9n > "$here/components.json.gz"
