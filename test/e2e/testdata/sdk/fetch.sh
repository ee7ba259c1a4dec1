#!/bin/bash
# Installs the clients that TestSDK drives into a directory: a Python virtual
# environment and node_modules. Versions are pinned: a new release of a client
# must not break a test of ours by itself.
set -euo pipefail
dir=${1:?give the directory}
mkdir -p "$dir"
if [ ! -e "$dir/python.done" ]; then
	python3 -m venv "$dir/venv"
	"$dir/venv/bin/pip" install -q openai==3.57.0 langchain-openai==1.7.4 litellm==1.110.2
	touch "$dir/python.done"
fi
if [ ! -e "$dir/schemathesis.done" ]; then
	python3 -m venv "$dir/schemathesis"
	"$dir/schemathesis/bin/pip" install -q schemathesis==4.32.5
	touch "$dir/schemathesis.done"
fi
if [ ! -e "$dir/node.done" ]; then
	npm install --silent --no-audit --no-fund --prefix "$dir" openai@7.59.0
	touch "$dir/node.done"
fi
