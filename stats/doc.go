// Package stats says what is measured and what each number means.
//
// A request has a Timeline; each message from an engine moves some timelines
// on and adds what happened to an Iteration; catalog.go names every metric
// those numbers end in. The package holds no registry and no socket: the
// engine client feeds it, package metrics exports it, package reader gives it
// back as typed records. EngineStatus is what can be said of an engine that says
// nothing.
//
// Two clocks are in play and never meet. Moments reported by an engine are
// seconds of that engine's monotonic clock and are subtracted only from one
// another; moments the frontend sees are time.Time and likewise.
//
// Follows vLLM V1 metrics/stats.py; we differ in: aborted requests are
// recorded, an interval with an unknown end is left out instead of read as
// zero, and an impossible number is clamped and counted (see Anomaly).
package stats
