package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"govllm/cmd/internal/flags"
	"govllm/cmd/internal/source"
	"govllm/frontend/admission"
	"govllm/frontend/api/httpserver"
	"govllm/frontend/api/openai"
	"govllm/frontend/chat"
	"govllm/frontend/chat/jinja"
	"govllm/frontend/dashboard"
	"govllm/frontend/engineclient"
	"govllm/frontend/metrics"
	"govllm/ipc"
	"govllm/protocol/modelfile"
	"govllm/protocol/modelfile/hub"
	"govllm/stats"
)

const (
	// deadGrace is how long the server goes on answering 503 after its engine
	// has died: clients read their errors, probes see the state.
	deadGrace = 2 * time.Second
	// closeGrace bounds writing the last answers and closing connections.
	closeGrace = 5 * time.Second
)

// run serves until ctx ends (nil) or an engine is lost.
func run(ctx context.Context, opts *flags.Frontend, settings map[string]string, log *slog.Logger) error {
	if _, err := metricsSwitches(opts); err != nil {
		return err
	}
	if opts.LogOutputs && !opts.LogRequests {
		return errors.New("--enable-log-outputs needs --enable-log-requests")
	}
	front := newFrontDoor(openai.ErrorFormat(opts.ErrorFormat))
	server, err := newServer(opts, front, log)
	if err != nil {
		return err
	}
	api, err := loadModel(ctx, opts, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	conn, err := ipc.Listen(ipc.FrontendOptions{HandshakeAddress: opts.HandshakeAddress(), EngineCount: opts.NumEngines, Log: log})
	if err != nil {
		return listenError(err, opts.HandshakeAddress(), "--data-parallel-rpc-port")
	}
	defer closeConn(conn, log)

	listener, err := httpserver.Listen(opts.Host, opts.Port, opts.UDS)
	if err != nil {
		return apiListenError(err, &opts.HTTP)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { _ = server.Close() }()

	log.Info("waiting for engines", "engines", opts.NumEngines, "address", conn.HandshakeAddress())
	engines, err := conn.WaitReady(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	api.Settings = settings
	app, err := newApp(opts, api, conn, engines, log)
	if err != nil {
		return err
	}
	front.open(app.handler)
	log.Info("serving", "model", api.ServedModelNames[0], "address", url(listener, &opts.HTTP), "max_model_len", api.MaxModelLen)

	err = app.serve(ctx, served, opts)
	shutdown, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	return errors.Join(err, server.Shutdown(shutdown))
}

// loadModel reads the model's files and makes the part of the API's
// configuration that they decide.
func loadModel(ctx context.Context, opts *flags.Frontend, log *slog.Logger) (openai.Config, error) {
	var override []byte
	if len(opts.OverrideGenerationConfig) > 0 {
		var err error
		if override, err = json.Marshal(opts.OverrideGenerationConfig); err != nil {
			return openai.Config{}, err
		}
	}
	m, err := openModel(ctx, opts, override, log)
	if err != nil {
		return openai.Config{}, err
	}
	maxModelLen, err := m.MaxModelLen(opts.MaxModelLen)
	if err != nil {
		return openai.Config{}, err
	}
	tok, err := loadTokenizer(opts.Model, m, log)
	if err != nil {
		return openai.Config{}, err
	}
	templates, err := chatTemplates(opts, m)
	if err != nil {
		return openai.Config{}, err
	}
	options, err := apiOptions(opts)
	if err != nil {
		return openai.Config{}, err
	}
	names := opts.ServedModelNames
	if len(names) == 0 {
		names = []string{opts.Model}
	}
	return openai.Config{
		Tokenizer: tok, Templates: templates, ServedModelNames: names, ModelRoot: opts.Model,
		MaxModelLen: maxModelLen, VocabSize: m.Config.VocabSize, MaxLogprobs: opts.MaxLogprobs, EOSTokenIDs: m.EOSTokenIDs(),
		Defaults: samplingDefaults(opts, &m.Generation), ResponseRole: opts.ResponseRole, Options: options, ErrorFormat: openai.ErrorFormat(opts.ErrorFormat),
	}, nil
}

// apiOptions are what requests may bring and what answers hold.
func apiOptions(opts *flags.Frontend) (openai.Options, error) {
	o := openai.Options{
		TrustRequestTemplate: opts.TrustRequestTemplate, ExcludeToolsForNone: opts.ExcludeToolsForNone,
		TokensAsTokenIDs: opts.TokensAsTokenIDs, PromptTokensDetails: opts.PromptTokensDetails,
		ForceIncludeUsage: opts.ForceIncludeUsage, StreamInterval: opts.StreamInterval,
	}
	if len(opts.TemplateKwargs) == 0 {
		return o, nil
	}
	raw, err := json.Marshal(opts.TemplateKwargs, json.Deterministic(true))
	if err != nil {
		return o, err
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return o, fmt.Errorf("--default-chat-template-kwargs: %w", err)
	}
	o.TemplateKwargs = v.(*jinja.Dict) // the value of a JSON object
	return o, nil
}

// openModel reads the files of the model but its weights, and those of another
// tokenizer if there is one. What is not here comes from the hub.
func openModel(ctx context.Context, opts *flags.Frontend, override []byte, log *slog.Logger) (*modelfile.Model, error) {
	path, err := source.Path(ctx, source.Want{Name: opts.Model, Revision: opts.Revision, Part: hub.Description}, &opts.Hub, log)
	if err != nil {
		return nil, err
	}
	other := ""
	if opts.Tokenizer != "" || opts.TokenizerRevision != "" {
		want := source.Want{Name: cmp.Or(opts.Tokenizer, opts.Model), Revision: opts.TokenizerRevision, Part: hub.Tokenizer}
		if want.Name == opts.Model {
			want.Revision = cmp.Or(want.Revision, opts.Revision)
		}
		if other, err = source.Path(ctx, want, &opts.Hub, log); err != nil {
			return nil, err
		}
	}
	return modelfile.Open(path, modelfile.Options{
		Tokenizer: other, GenerationConfig: opts.GenerationConfig, OverrideGenerationConfig: override,
	})
}

// chatTemplates takes --chat-template, a file or the template itself, else the
// model's own; nil if there is none.
func chatTemplates(opts *flags.Frontend, m *modelfile.Model) (*chat.Set, error) {
	jinjaFile := m.ChatTemplateJinja
	tokenizerConfig := m.TokenizerConfigJSON
	if opts.ChatTemplate != "" {
		source := []byte(opts.ChatTemplate)
		if !strings.ContainsAny(opts.ChatTemplate, "{}\n") { // as vLLM tells a path from a template
			var err error
			if source, err = os.ReadFile(opts.ChatTemplate); err != nil {
				return nil, fmt.Errorf("--chat-template: %w", err)
			}
		}
		jinjaFile, tokenizerConfig = source, nil
	}
	set, err := chat.FindTemplate(tokenizerConfig, jinjaFile)
	if errors.Is(err, chat.ErrNoTemplate) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: chat template: %w", opts.Model, err)
	}
	return set, nil
}

// samplingDefaults are what a request gets that does not say otherwise.
func samplingDefaults(opts *flags.Frontend, g *modelfile.Generation) openai.Defaults {
	d := openai.Defaults{Temperature: g.Temperature, TopP: g.TopP, TopK: g.TopK, MinP: g.MinP,
		Repetition: g.RepetitionPenalty, MaxTokens: g.MaxNewTokens}
	_, overridden := opts.OverrideGenerationConfig["max_new_tokens"]
	if overridden || (opts.GenerationConfig != "auto" && opts.GenerationConfig != "vllm") {
		d.MaxTokensCap = g.MaxNewTokens
	}
	return d
}

// frontDoor answers from the moment the port is open: until the engines are
// ready, with 503.
type frontDoor struct{ handler atomic.Pointer[http.Handler] }

func newFrontDoor(format openai.ErrorFormat) *frontDoor {
	f := &frontDoor{}
	f.open(openai.NotReady(format))
	return f
}

func (f *frontDoor) open(h http.Handler) { f.handler.Store(&h) }

func (f *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.handler.Load()).ServeHTTP(w, r)
}

// newServer puts the HTTP server's edges around the API.
func newServer(opts *flags.Frontend, api http.Handler, log *slog.Logger) (*httpserver.Server, error) {
	cfg := opts.Server()
	cfg.Refuse, cfg.Log = openai.ErrorFormat(opts.ErrorFormat).Refuse, log
	if cfg.CORS.Credentials && slices.Contains(cfg.CORS.Origins, "*") {
		log.Warn("--allow-credentials with --allowed-origins * lets the scripts of every web page act for its visitors; name the origins")
	}
	return httpserver.New(cfg, api)
}

// url is where the API is, for the log.
func url(l net.Listener, h *flags.HTTP) string {
	scheme := "http"
	if h.SSLCertFile != "" {
		scheme = "https"
	}
	if h.UDS != "" {
		return scheme + "+unix:" + h.UDS
	}
	return scheme + "://" + l.Addr().String() + h.RootPath
}

// app is the server of engines that are ready.
type app struct {
	client   *engineclient.Client
	recorder *metrics.Recorder // nil without statistics
	page     *dashboard.Dashboard
	handler  http.Handler
	log      *slog.Logger
}

func newApp(opts *flags.Frontend, cfg openai.Config, conn *ipc.FrontendConn, engines []ipc.EngineInfo, log *slog.Logger) (*app, error) {
	for _, e := range engines {
		if n := e.Registration.MaxModelLen; e.Registered && n > 0 {
			cfg.MaxModelLen = min(cfg.MaxModelLen, n)
		}
	}
	cfg.SystemFingerprint = fingerprint(opts, &cfg, engines)
	registry := metrics.NewRegistry(log)
	httpMetrics, err := registry.NewHTTP()
	if err != nil {
		return nil, err
	}
	a := &app{log: log}
	clientOpts := engineclient.Options{Logger: log,
		StallTimeout: seconds(opts.EngineStallTimeout), StallFailsHealth: opts.StallFailsHealth}
	if !opts.DisableLogStats {
		mc, err := metricsConfig(opts, cfg, engines)
		if err != nil {
			return nil, err
		}
		if a.recorder, err = registry.NewRecorder(mc); err != nil {
			return nil, err
		}
		clientOpts.Recorder = a.recorder
	}
	a.client = engineclient.New(conn, engines, clientOpts)
	if a.recorder != nil {
		a.recorder.Watch(a.client.Status)
	}
	load := new(metrics.Load)
	cfg.Client, cfg.Logger = a.client, log
	cfg.SSEKeepAlive = seconds(opts.SSEKeepAlive)
	cfg.RequestLog = openai.RequestLog{Requests: opts.LogRequests, Outputs: opts.LogOutputs, Deltas: opts.LogDeltas, MaxLen: opts.MaxLogLen}
	cfg.Docs = openai.Docs{Off: opts.DisableDocs, RootPath: opts.RootPath, Keys: len(opts.APIKeys) > 0, OpenPaths: opts.OpenPaths}
	if cfg.DevMode = opts.DevMode; cfg.DevMode {
		log.Warn("development routes are served (VLLM_SERVER_DEV_MODE): whoever reaches the API can pause the engine and read its configuration")
	}
	cfg.Admission = admission.New(admission.Config{MaxRequests: opts.MaxQueuedReqs, MaxTokens: opts.MaxQueuedTokens, Rejected: a.recorder.Reject})
	a.page = dashboard.New(registry, log)
	cfg.Routes = a.page.Routes()
	cfg.Routes["GET /metrics"] = registry
	if opts.MetricsJSON {
		cfg.Routes["GET /metrics.json"] = registry.ReaderJSON()
	}
	if opts.ServerLoadTracking {
		cfg.Routes["GET /load"] = load
	}
	server := openai.New(cfg)
	a.handler = httpMetrics.Wrap(load.Track(server))
	return a, nil
}

// metricsSwitches is what flags and environment say of the metrics.
func metricsSwitches(opts *flags.Frontend) (mc metrics.Config, err error) {
	mc.AggregateLog = opts.AggregateEngineLogging
	mc.Gates[stats.GateKVCache] = opts.KVCacheMetrics
	mc.Gates[stats.GateNaNs] = os.Getenv("VLLM_COMPUTE_NANS_IN_LOGITS") == "1"
	if mc.Buckets, err = stats.ParseBuckets(opts.CustomHistogramBuckets); err != nil {
		return mc, fmt.Errorf("--custom-histogram-buckets: %w", err)
	}
	if opts.ShowHiddenMetrics != "" {
		if mc.ShowHidden, err = stats.ParseVersion(opts.ShowHiddenMetrics); err != nil {
			return mc, fmt.Errorf("--show-hidden-metrics-for-version: %w", err)
		}
	}
	return mc, nil
}

func metricsConfig(opts *flags.Frontend, cfg openai.Config, engines []ipc.EngineInfo) (metrics.Config, error) {
	mc, err := metricsSwitches(opts)
	if err != nil {
		return mc, err
	}
	mc.ModelName, mc.MaxModelLen = cfg.ServedModelNames[0], cfg.MaxModelLen
	for _, e := range engines {
		r := &e.Registration
		mc.Engines = append(mc.Engines, metrics.EngineConfig{
			Index: e.Rank, BlockSize: r.BlockSize, NumGPUBlocks: r.NumGPUBlocks,
			KVCacheSizeTokens: r.KVCacheSizeTokens, KVCacheMaxConcurrency: r.KVCacheMaxConcurrency,
			CacheDType: r.CacheDType, EnablePrefixCaching: r.EnablePrefixCaching,
		})
	}
	return mc, nil
}

// serve runs until ctx ends, the HTTP server fails, or an engine dies.
func (a *app) serve(ctx context.Context, served <-chan error, opts *flags.Frontend) error {
	reading, stopReading := context.WithCancel(context.Background())
	defer stopReading()
	var background errgroup.Group
	defer func() { _ = background.Wait() }()
	defer stopReading()
	background.Go(func() error { return a.client.Run(reading) })
	background.Go(func() error {
		a.page.Run(reading)
		return nil
	})
	if a.recorder != nil {
		background.Go(func() error {
			a.recorder.LogEvery(reading, seconds(opts.LogStatsInterval))
			return nil
		})
	}
	select {
	case err := <-served:
		return fmt.Errorf("http server: %w", err)
	case <-a.client.Dead():
		err := a.client.Healthy()
		a.log.Error("shutting down", "error", err)
		time.Sleep(deadGrace)
		return err
	case <-ctx.Done():
	}
	return a.drain(time.Duration(opts.ShutdownTimeout) * time.Second)
}

// drain lets live requests finish within the timeout and aborts the rest; new
// ones are refused meanwhile.
func (a *app) drain(timeout time.Duration) error {
	if timeout > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if a.client.Drain(ctx) == nil {
			return nil
		}
	}
	if n := a.client.NumLive(); n > 0 {
		a.log.Warn("aborting requests", "requests", n)
	}
	a.client.AbortAll()
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func apiListenError(err error, h *flags.HTTP) error {
	if h.UDS != "" {
		return listenError(err, h.UDS, "--uds")
	}
	return listenError(err, net.JoinHostPort(h.Host, strconv.Itoa(h.Port)), "--port")
}

func listenError(err error, address, flag string) error {
	if errors.Is(err, ipc.ErrAddressInUse) || errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another process; stop that one or choose another with %s", address, flag)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}

func closeConn(conn *ipc.FrontendConn, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		log.Warn("closing the engine connection", "error", err)
	}
}
