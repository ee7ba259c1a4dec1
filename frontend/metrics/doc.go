// Package metrics exports the frontend's statistics to Prometheus.
//
// A Registry serves /metrics from memory. A Recorder adds the vllm: metrics of
// stats' catalog to it and takes what the engine client records; with Watch,
// each scrape also asks the client what it knows of its engines by its own
// clock. HTTP adds the http_* ones; Load serves /load. The process's own
// (process_*, go_*) are always there. ReaderJSON serves the same as records.
//
// Follows vLLM V1 metrics/loggers.py; we differ in: cache_config_info carries
// model_name, speculative decoding shows itself with its first statistics,
// and engines that report their steps get metrics of their own.
package metrics
