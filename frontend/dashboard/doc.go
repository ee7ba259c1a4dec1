// Package dashboard shows the last 15 minutes of a frontend on a web page.
//
//	Registry.Gather every 5 s → History (a ring) → /dashboard/data → /dashboard
//
// The numbers are those of /metrics: rates and percentiles are taken from what
// counters and histograms rose by between two samples. The page and its
// script are in the binary and ask nobody else for anything. History also
// reads another server's /metrics, vLLM's too: `vllm-frontend top` does.
package dashboard
