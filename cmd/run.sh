#!/bin/bash
# Starts vllm-core and vllm-frontend, says what to try once they serve, and
# stops both on Ctrl-C. If one ends, so does the other, with its exit status.
# Arguments go to both commands. Without MODEL, default-model.sh fetches one.
set -u

bin=${BIN:-bin} model=${MODEL:-} port=${PORT:-8000}
name=()
if [ -z "$model" ]; then
	model=$("$(dirname "$0")/default-model.sh") || exit
	[ "$model" = builtin ] || name=(--served-model-name SmolLM2-135M-Instruct)
fi
question="What is the capital of France, and what is it known for?"
[ "$model" = builtin ] && question="Once upon a time there was a king."

set -m # process groups of their own: Ctrl-C reaches this script alone
"$bin/vllm-frontend" --model "$model" ${name[@]+"${name[@]}"} --port "$port" \
	--disable-access-log-for-endpoints /ping "$@" &
frontend=$!
"$bin/vllm-core" --model "$model" "$@" &
core=$!

stopping=
stop() {
	stopping=1
	kill -TERM "$core" "$frontend" 2>/dev/null
}
trap stop INT TERM

until curl -fs -o /dev/null "http://127.0.0.1:$port/ping" || [ -n "$stopping" ]; do
	kill -0 "$frontend" 2>/dev/null && kill -0 "$core" 2>/dev/null || break
	sleep 0.1
done

if [ -z "$stopping" ] && kill -0 "$frontend" 2>/dev/null && kill -0 "$core" 2>/dev/null; then
	cat <<EOF

Serving ${name[1]:-$model} at http://127.0.0.1:$port. Try, in another terminal:

  curl http://127.0.0.1:$port/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "$question"}], "max_tokens": 100}'
  curl http://127.0.0.1:$port/metrics

Ctrl-C stops both processes.

EOF
fi

# The first process to end takes the other with it.
wait -n "$frontend" "$core"
status=$?
[ -n "$stopping" ] && status=0
kill -TERM "$core" "$frontend" 2>/dev/null
while kill -0 "$frontend" 2>/dev/null || kill -0 "$core" 2>/dev/null; do
	wait "$frontend" "$core"
done
exit "$status"
