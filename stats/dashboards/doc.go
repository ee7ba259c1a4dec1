// Package dashboards holds what is made for looking at the metrics of package
// stats: Grafana dashboards, Prometheus rules and autoscaling examples.
//
// A Dashboard declares its panels in Go; the JSON files beside are made from
// them by `go test ./stats/dashboards -update`. Rules and examples are files.
// Every expression, wherever it stands, names metrics of the catalog (a test
// here sees to it) and gives the right result in a real Prometheus
// (`make e2e-observability`). README.md says how to use them.
package dashboards
