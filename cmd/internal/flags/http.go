package flags

import (
	"math"
	"strings"
	"time"

	"govllm/cmd/internal/cli"
	"govllm/frontend/api/httpserver"
)

// HTTP are the options of the frontend's HTTP server and of what it lets in.
type HTTP struct {
	Host     string
	Port     int
	UDS      string // path; host and port do not count then
	RootPath string

	APIKeys          []string
	OpenPaths        []string
	AllowedOrigins   []string
	AllowedMethods   []string
	AllowedHeaders   []string
	AllowCredentials bool

	SSLKeyFile, SSLCertFile, SSLCAFile string
	SSLCertReqs                        int // 0, 1 or 2
	SSLCiphers                         string
	SSLRefresh                         bool

	MaxBodyBytes   int
	MaxHeaderBytes int
	MaxHeaders     int
	ReadTimeout    float64 // seconds
	KeepAlive      float64 // seconds

	MaxQueuedReqs   int // sequences; 0: no limit
	MaxQueuedTokens int // 0: no limit

	SSEKeepAlive  float64 // seconds; 0: never
	EchoRequestID bool
	AccessLog     bool
	QuietPaths    string // with commas between
	LogRequests   bool
	LogOutputs    bool
	LogDeltas     bool
	MaxLogLen     int // characters, or token IDs; -1: all
	DisableDocs   bool
	DevMode       bool
}

func defaultHTTP() HTTP {
	return HTTP{
		Port:           8000,
		OpenPaths:      httpserver.DefaultOpenPaths(),
		AllowedMethods: []string{"*"},
		AllowedHeaders: []string{"*"},
		MaxBodyBytes:   64 << 20,
		MaxHeaderBytes: 4 << 20,
		MaxHeaders:     256,
		ReadTimeout:    30,
		KeepAlive:      120,
		AccessLog:      true,
		LogDeltas:      true,
		MaxLogLen:      -1,
	}
}

func httpFlags(h *HTTP) []cli.Flag {
	return []cli.Flag{
		{Name: "host", Group: "Server", Help: "address to listen on; all if not given", Value: cli.String(&h.Host)},
		{Name: "port", Group: "Server", Help: "port to listen on", Value: cli.Int(&h.Port, 0, 65535)},
		{Name: "uds", Group: "Server", Help: "Unix domain socket to listen on instead", Value: cli.String(&h.UDS)},
		{Name: "root-path", Group: "Server", Help: "path that a proxy in front puts before every other", Value: cli.String(&h.RootPath)},
		{Name: "enable-request-id-headers", Group: "Server", Help: "answer with X-Request-Id: the client's, or a new one", Value: cli.Bool(&h.EchoRequestID)},
		{Name: "sse-keep-alive-interval", Group: "Server", Help: "seconds after which a stream that waits for tokens gets a comment, so that proxies keep it open; 0: never", Value: cli.Float(&h.SSEKeepAlive, 0, 86400)},
		{Name: "disable-fastapi-docs", Group: "Server", Help: "no /docs and no /openapi.json", Value: cli.Bool(&h.DisableDocs)},
		{Name: "enable-offline-docs", Group: "Server", Help: "/docs loads nothing from elsewhere", Value: cli.FixedSwitch(true, "the page is inside this program")},
		{Name: "server-dev-mode", Group: "Server", Help: "routes for development: caches, pause, sleep, /server_info. Not for production", Env: "VLLM_SERVER_DEV_MODE", Value: cli.Bool(&h.DevMode)},

		{Name: "api-key", Group: "Security", Help: "keys of which a request must have one, as bearer token or x-api-key", Env: "VLLM_API_KEY", Value: cli.Secrets(&h.APIKeys)},
		{Name: "unauthenticated-paths", Group: "Security", Help: "paths that want no key; close /metrics by leaving it out", Value: cli.List(&h.OpenPaths)},
		{Name: "allowed-origins", Group: "Security", Help: "web pages whose scripts may use the API, or *; none if not given (CORS)", Value: cli.List(&h.AllowedOrigins)},
		{Name: "allowed-methods", Group: "Security", Help: "methods that such scripts may use", Value: cli.List(&h.AllowedMethods)},
		{Name: "allowed-headers", Group: "Security", Help: "headers that such scripts may send", Value: cli.List(&h.AllowedHeaders)},
		{Name: "allow-credentials", Group: "Security", Help: "such scripts may send cookies and client certificates", Value: cli.Bool(&h.AllowCredentials)},
		{Name: "ssl-certfile", Group: "Security", Help: "certificate in PEM form, with those of its issuers: the server speaks TLS", Value: cli.String(&h.SSLCertFile)},
		{Name: "ssl-keyfile", Group: "Security", Help: "its key; in --ssl-certfile if not given", Value: cli.String(&h.SSLKeyFile)},
		{Name: "ssl-ca-certs", Group: "Security", Help: "issuers of the clients' certificates", Value: cli.String(&h.SSLCAFile)},
		{Name: "ssl-cert-reqs", Group: "Security", Help: "clients' certificates: 0 none is asked for, 1 checked if sent, 2 required", Value: cli.Int(&h.SSLCertReqs, 0, 2)},
		{Name: "ssl-ciphers", Group: "Security", Help: "suites of TLS 1.2, OpenSSL's names with colons between", Value: cli.String(&h.SSLCiphers)},
		{Name: "enable-ssl-refresh", Group: "Security", Help: "read the TLS files again when they change", Value: cli.Bool(&h.SSLRefresh)},

		{Name: "max-num-queued-reqs", Group: "Limits", Help: "sequences in flight, waiting or running; beyond that requests get 503. No limit if not given", Value: cli.OptInt(&h.MaxQueuedReqs, 1, math.MaxInt32)},
		{Name: "max-num-queued-tokens", Group: "Limits", Help: "prompt tokens in flight that have no first token yet; at that many requests get 503. No limit if not given", Value: cli.OptInt(&h.MaxQueuedTokens, 1, math.MaxInt)},
		{Name: "max-request-body-bytes", Group: "Limits", Help: "largest request body", Value: cli.Int(&h.MaxBodyBytes, 1, math.MaxInt)},
		{Name: "h11-max-incomplete-event-size", Group: "Limits", Help: "bytes of a request's headers", Value: cli.Int(&h.MaxHeaderBytes, 1, math.MaxInt32)},
		{Name: "h11-max-header-count", Group: "Limits", Help: "number of a request's headers", Value: cli.Int(&h.MaxHeaders, 1, math.MaxInt32)},
		{Name: "request-read-timeout", Group: "Limits", Help: "seconds that a client may take to send its headers, and then its body unless that keeps coming at 1 KiB/s", Value: cli.Float(&h.ReadTimeout, 0.001, 86400)},
		{Name: "timeout-keep-alive", Group: "Limits", Help: "seconds that a connection may be idle between two requests", Env: "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", Value: cli.Float(&h.KeepAlive, 0.001, 86400)},

		{Name: "disable-uvicorn-access-log", Group: "Logging", Help: "do not log each request", Value: cli.Not(&h.AccessLog)},
		{Name: "disable-access-log-for-endpoints", Group: "Logging", Help: "paths whose requests are not logged, with commas between", Value: cli.String(&h.QuietPaths)},
		{Name: "enable-log-requests", Group: "Logging", Help: "log the parameters of each request; at level DEBUG its prompt too", Value: cli.Bool(&h.LogRequests)},
		{Name: "enable-log-outputs", Group: "Logging", Help: "log what is generated too; needs --enable-log-requests", Value: cli.Bool(&h.LogOutputs)},
		{Name: "enable-log-deltas", Group: "Logging", Help: "of streams log each piece as well as the whole", Value: cli.Bool(&h.LogDeltas)},
		{Name: "max-log-len", Group: "Logging", Help: "characters of a text, or token IDs, that are logged; -1: all", Value: cli.Int(&h.MaxLogLen, -1, math.MaxInt32)},
	}
}

// Server is the HTTP server's configuration, but for what it serves.
func (h *HTTP) Server() httpserver.Config {
	c := httpserver.Config{
		APIKeys: h.APIKeys, OpenPaths: h.OpenPaths,
		CORS: httpserver.CORS{Origins: h.AllowedOrigins, Methods: h.AllowedMethods, Headers: h.AllowedHeaders, Credentials: h.AllowCredentials},
		TLS: httpserver.TLS{CertFile: h.SSLCertFile, KeyFile: h.SSLKeyFile, CAFile: h.SSLCAFile,
			ClientCerts: httpserver.ClientCerts(h.SSLCertReqs), Ciphers: h.SSLCiphers, Refresh: h.SSLRefresh},
		RootPath: h.RootPath, EchoRequestID: h.EchoRequestID, AccessLog: h.AccessLog,
		MaxBodyBytes: int64(h.MaxBodyBytes), MaxHeaderBytes: h.MaxHeaderBytes, MaxHeaders: h.MaxHeaders,
		ReadTimeout: seconds(h.ReadTimeout), IdleTimeout: seconds(h.KeepAlive), WriteTimeout: writeTimeout,
	}
	for path := range strings.SplitSeq(h.QuietPaths, ",") {
		if path = strings.TrimSpace(path); path != "" {
			c.QuietPaths = append(c.QuietPaths, path)
		}
	}
	return c
}

// writeTimeout is how long a client may leave an answer unread, once what the
// kernel buffers is full, before it counts as gone.
const writeTimeout = time.Minute

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
