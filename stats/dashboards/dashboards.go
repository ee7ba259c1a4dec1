package dashboards

import (
	"encoding/json"
	"strings"
)

// Dashboard is a Grafana dashboard: rows of panels.
type Dashboard struct {
	File   string // its name here
	UID    string
	Title  string
	Engine bool // has the engine variable
	Rows   []Row
}

// Row is a heading and the panels below it, three to a line.
type Row struct {
	Title  string // "": none
	Panels []Panel
}

// Panel is one chart.
type Panel struct {
	Title   string
	Kind    Kind
	Unit    string // Grafana's name of it
	Help    string
	Queries []Query
}

// Kind is how a panel draws.
type Kind string

const (
	Lines   Kind = "timeseries"
	Heatmap Kind = "heatmap"
	Number  Kind = "stat"
)

// Query is a PromQL expression with Grafana's variables in it.
type Query struct{ Expr, Legend string }

// All are the dashboards: ours, and the panels of vLLM's own example.
func All() []Dashboard { return []Dashboard{ours, vllm} }

// Expand replaces Grafana's variables in an expression, as Grafana would.
func Expand(expr, modelName, engine, rateInterval string) string {
	return strings.NewReplacer("$model_name", modelName, "$engine", engine, "$__rate_interval", rateInterval).Replace(expr)
}

const (
	byModel  = `{model_name="$model_name"}`
	byEngine = `{model_name="$model_name",engine=~"$engine"}`
	byProc   = byModel // of the frontend as a whole
)

// one is a panel of a single query.
func one(title, unit, legend, expr, help string) Panel {
	return Panel{Title: title, Kind: Lines, Unit: unit, Help: help, Queries: []Query{{expr, legend}}}
}

// quantiles draws percentiles and the mean of a histogram.
func quantiles(title, metric, unit, filter, help string) Panel {
	p := Panel{Title: title, Kind: Lines, Unit: unit, Help: help}
	for _, q := range []string{"0.5", "0.9", "0.95", "0.99"} {
		p.Queries = append(p.Queries, Query{
			"histogram_quantile(" + q + ", sum by(le) (rate(" + metric + "_bucket" + filter + "[$__rate_interval])))",
			"P" + strings.TrimPrefix(q+"0", "0.")[:2],
		})
	}
	p.Queries = append(p.Queries, Query{mean(metric, filter), "mean"})
	return p
}

func mean(metric, filter string) string {
	return "sum(rate(" + metric + "_sum" + filter + "[$__rate_interval])) / sum(rate(" + metric + "_count" + filter + "[$__rate_interval]))"
}

func rate(metric, filter string) string {
	return "sum(rate(" + metric + filter + "[$__rate_interval]))"
}

func rateBy(label, metric, filter string) string {
	return "sum by(" + label + ") (rate(" + metric + filter + "[$__rate_interval]))"
}

// vllm are the panels of vLLM's example dashboard, so that who knows one finds
// their way here. Source: examples/observability/prometheus_grafana.
var vllm = Dashboard{File: "vllm.json", UID: "govllm-vllm", Title: "vLLM", Rows: []Row{{Panels: []Panel{
	quantiles("E2E Request Latency", "vllm:e2e_request_latency_seconds", "s", byModel, "From arrival to the end of a request."),
	{Title: "Token Throughput", Kind: Lines, Unit: "short", Help: "Tokens a second.", Queries: []Query{
		{rate("vllm:prompt_tokens_total", byModel), "prompt"},
		{rate("vllm:generation_tokens_total", byModel), "generation"}}},
	quantiles("Inter Token Latency", "vllm:inter_token_latency_seconds", "s", byModel, "Between two outputs of a request."),
	{Title: "Scheduler State", Kind: Lines, Unit: "short", Help: "Requests in the scheduler.", Queries: []Query{
		{"vllm:num_requests_running" + byModel, "running"},
		{"vllm:num_requests_waiting" + byModel, "waiting"}}},
	quantiles("Time To First Token Latency", "vllm:time_to_first_token_seconds", "s", byModel, "From arrival to the first token."),
	one("Cache Utilization", "percentunit", "KV cache", "vllm:kv_cache_usage_perc"+byModel, "Part of the KV cache in use."),
	{Title: "Request Prompt Length", Kind: Heatmap, Unit: "short", Help: "Tokens of prompts.", Queries: []Query{
		{"sum by(le) (increase(vllm:request_prompt_tokens_bucket" + byModel + "[$__rate_interval]))", "{{le}}"}}},
	{Title: "Request Generation Length", Kind: Heatmap, Unit: "short", Help: "Generated tokens of requests.", Queries: []Query{
		{"sum by(le) (increase(vllm:request_generation_tokens_bucket" + byModel + "[$__rate_interval]))", "{{le}}"}}},
	one("Finish Reason", "short", "{{finished_reason}}", "sum by(finished_reason) (increase(vllm:request_success_total"+byModel+"[$__rate_interval]))",
		"Ended requests by reason."),
	one("Queue Time", "s", "queue", rate("vllm:request_queue_time_seconds_sum", byModel), "Seconds that requests queued, each second."),
	{Title: "Requests Prefill and Decode Time", Kind: Lines, Unit: "s", Help: "Seconds that requests spent in either, each second.", Queries: []Query{
		{rate("vllm:request_prefill_time_seconds_sum", byModel), "prefill"},
		{rate("vllm:request_decode_time_seconds_sum", byModel), "decode"}}},
	one("Max Generation Token in Sequence Group", "short", "tokens", rate("vllm:request_max_num_generation_tokens_sum", byModel),
		"Tokens of the longest of a request's sequences, each second."),
}}}}

// ours shows what vLLM's cannot: the queue in tokens, each step, the whole way
// of a request, and whether the engine is at work at all.
var ours = Dashboard{File: "govllm.json", UID: "govllm", Title: "govllm", Engine: true, Rows: []Row{
	{"Now", []Panel{
		{Title: "Stalled engines", Kind: Number, Unit: "short", Help: "Requests outstanding and no completed step for longer than --engine-stall-timeout.",
			Queries: []Query{{"sum(vllm:engine_stalled" + byEngine + ")", ""}}},
		{Title: "Requests in flight", Kind: Number, Unit: "short", Help: "Of all stages, by the frontend's own table.",
			Queries: []Query{{"sum(vllm:num_requests_in_flight" + byModel + ")", ""}}},
		{Title: "Load in tokens", Kind: Number, Unit: "short", Help: "Tokens in the KV cache and in the queue: what to scale on.",
			Queries: []Query{{"sum(vllm:num_tokens_load" + byEngine + ")", ""}}},
	}},
	{"Latency", []Panel{
		quantiles("Time to first token", "vllm:time_to_first_token_seconds", "s", byEngine, "From the HTTP request's arrival, queueing included."),
		quantiles("Inter-token latency", "vllm:inter_token_latency_seconds", "s", byEngine, "Between two outputs of a request, preemptions included."),
		quantiles("End to end", "vllm:e2e_request_latency_seconds", "s", byEngine, "From the HTTP request's arrival to its end, aborted ones included."),
		{Title: "Where a request's time goes", Kind: Lines, Unit: "s", Help: "Mean time in each phase, in the order they happen.", Queries: []Query{
			{mean("vllm:request_preparation_time_seconds", byEngine), "preparation"},
			{mean("vllm:request_queue_time_seconds", byEngine), "queue"},
			{mean("vllm:request_prefill_time_seconds", byEngine), "prefill"},
			{mean("vllm:request_decode_time_seconds", byEngine), "decode"},
			{mean("vllm:output_delivery_time_seconds", byEngine), "delivery of an output"}}},
		quantiles("Time per output token", "vllm:request_time_per_output_token_seconds", "s", byEngine, "A request's decode time by its tokens."),
		one("HTTP responses", "reqps", "{{handler}} {{status}}", "sum by(handler, status) (rate(http_requests_total[$__rate_interval]))", "By route and class of status."),
	}},
	{"Load", []Panel{
		one("Requests by stage", "short", "{{stage}}", "sum by(stage) (vllm:num_requests_in_flight"+byModel+")",
			"tokenizing, sent to the engine, queued there, running."),
		{Title: "Tokens by state", Kind: Lines, Unit: "short", Help: "They sum to the load in tokens.", Queries: []Query{
			{"sum(vllm:num_tokens_running" + byEngine + ")", "in the KV cache"},
			{"sum(vllm:num_tokens_pending" + byEngine + ")", "running, to be computed"},
			{"sum(vllm:num_tokens_waiting_uncached" + byEngine + ")", "waiting, to be computed"}}},
		one("Waiting requests by reason", "short", "{{reason}}", "sum by(reason) (vllm:num_requests_waiting_by_reason"+byEngine+")", ""),
		{Title: "Throughput", Kind: Lines, Unit: "short", Help: "Tokens a second.", Queries: []Query{
			{rate("vllm:generation_tokens_total", byEngine), "generated"},
			{rateBy("source", "vllm:prompt_tokens_by_source_total", byEngine), "prompt, {{source}}"}}},
		one("Ended requests", "reqps", "{{finished_reason}}", rateBy("finished_reason", "vllm:request_success_total", byEngine), "By reason."),
		one("Rejected requests", "reqps", "{{reason}}", rateBy("reason", "vllm:admission_rejections_total", byProc), "By the limit they met."),
	}},
	{"KV cache", []Panel{
		one("KV cache in use", "percentunit", "engine {{engine}}", "vllm:kv_cache_usage_perc"+byEngine, "Blocks kept only for prefix reuse count as free."),
		one("Prefix cache hit rate", "percentunit", "hits", rate("vllm:prefix_cache_hits_total", byEngine)+" / "+rate("vllm:prefix_cache_queries_total", byEngine),
			"Part of the tokens looked up that were found."),
		{Title: "Preemptions", Kind: Lines, Unit: "short", Help: "Each second, by reason, and the tokens computed again for them.", Queries: []Query{
			{rateBy("reason", "vllm:num_preemptions_by_reason_total", byEngine), "{{reason}}"},
			{rate("vllm:num_tokens_recomputed_total", byEngine), "recomputed tokens"}}},
	}},
	{"Engine", []Panel{
		quantiles("Step duration", "vllm:step_duration_seconds", "s", byEngine, "From scheduling to results."),
		{Title: "Tokens in a step", Kind: Lines, Unit: "short", Help: "Mean.", Queries: []Query{
			{mean("vllm:step_prefill_tokens", byEngine), "prefill"},
			{mean("vllm:step_decode_tokens", byEngine), "decode"}}},
		one("Steps", "ops", "engine {{engine}}", rateBy("engine", "vllm:step_scheduled_tokens_count", byEngine), "Each second."),
		{Title: "Age of the latest sign of life", Kind: Lines, Unit: "s", Help: "By the frontend's clock. Steps and tokens age while the engine is idle; messages do not.", Queries: []Query{
			{"vllm:engine_last_message_age_seconds" + byEngine, "message, engine {{engine}}"},
			{"vllm:engine_last_step_age_seconds" + byEngine, "step, engine {{engine}}"},
			{"vllm:engine_last_token_age_seconds" + byEngine, "token, engine {{engine}}"}}},
		one("Step under way", "s", "engine {{engine}}", "vllm:engine_running_step_seconds"+byEngine, "How long the engine had been at it when it last said so."),
		{Title: "Frontend", Kind: Lines, Unit: "short", Help: "Processors in use, and impossible numbers each second.", Queries: []Query{
			{"sum(rate(process_cpu_seconds_total[$__rate_interval]))", "processors"},
			{rateBy("kind", "vllm:stats_anomalies_total", byProc), "anomalies, {{kind}}"}}},
	}},
}}

// JSON is the dashboard as Grafana imports it.
func (d *Dashboard) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(d.model(), "", "  ")
	return append(b, '\n'), err
}

type object = map[string]any

func (d *Dashboard) model() object {
	variables := []object{
		{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
		d.variable("model_name", "label_values(vllm:num_requests_running, model_name)", false),
	}
	if d.Engine {
		variables = append(variables, d.variable("engine", `label_values(vllm:num_requests_running{model_name="$model_name"}, engine)`, true))
	}
	return object{
		"uid": d.UID, "title": d.Title, "tags": []string{"vllm"}, "schemaVersion": 39, "editable": true,
		"refresh": "10s", "time": object{"from": "now-15m", "to": "now"},
		"templating": object{"list": variables},
		"panels":     d.panels(),
	}
}

// variable is one that Prometheus fills; many lets several be chosen at once.
func (d *Dashboard) variable(name, query string, many bool) object {
	v := object{"name": name, "type": "query", "datasource": source, "definition": query,
		"query": object{"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": many, "includeAll": many}
	if many {
		v["allValue"], v["current"] = ".*", object{"text": "All", "value": "$__all"}
	}
	return v
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

// panels lays the rows out on Grafana's grid of 24 columns.
func (d *Dashboard) panels() []object {
	const width, height = 8, 8
	var panels []object
	x, y, id := 0, 0, 0
	place := func(p object, w, h int) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, p)
	}
	for _, row := range d.Rows {
		x = 0
		if row.Title != "" {
			place(object{"type": "row", "title": row.Title, "collapsed": false, "panels": []object{}}, 24, 1)
			y++
		}
		h := height
		for i := range row.Panels {
			p := &row.Panels[i]
			if p.Kind == Number {
				h = 4
			}
			if x == 24 {
				x, y = 0, y+h
			}
			place(p.model(), width, h)
			x += width
		}
		y += h
	}
	return panels
}

func (p *Panel) model() object {
	m := object{"title": p.Title, "type": string(p.Kind), "description": p.Help, "datasource": source,
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []object{}}}
	var targets []object
	for i, q := range p.Queries {
		t := object{"datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "refId": string(rune('A' + i)), "range": true}
		if p.Kind == Heatmap {
			t["format"] = "heatmap"
		}
		targets = append(targets, t)
	}
	m["targets"] = targets
	if p.Kind == Heatmap {
		m["options"] = object{"calculate": false, "yAxis": object{"unit": p.Unit}}
	}
	return m
}
