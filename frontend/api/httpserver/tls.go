package httpserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// ClientCerts says what is asked of clients, by the numbers of Python's ssl
// module.
type ClientCerts int

const (
	ClientCertsNone     ClientCerts = iota // none is asked for
	ClientCertsOptional                    // checked if sent
	ClientCertsRequired
)

// TLS names the files of a server that speaks it. No CertFile: plain HTTP.
type TLS struct {
	CertFile    string // certificates, the server's first
	KeyFile     string // private key; "": in CertFile
	CAFile      string // that client certificates are checked against
	ClientCerts ClientCerts
	Ciphers     string // OpenSSL's names with colons between, for TLS 1.2; "": Go's choice
	Refresh     bool   // read the files again when they change
}

func (t *TLS) validate() error {
	var errs []error
	if t.CertFile == "" && (t.KeyFile != "" || t.CAFile != "" || t.ClientCerts != ClientCertsNone || t.Ciphers != "" || t.Refresh) {
		errs = append(errs, errors.New("--ssl-certfile is missing: the other TLS flags need it"))
	}
	if t.ClientCerts != ClientCertsNone && t.CAFile == "" {
		errs = append(errs, fmt.Errorf("--ssl-cert-reqs %d needs --ssl-ca-certs, which client certificates are checked against", t.ClientCerts))
	}
	if _, err := cipherSuites(t.Ciphers); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// config reads the files. nil: plain HTTP.
func (t *TLS) config(log *slog.Logger) (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	first, err := t.load()
	if err != nil {
		return nil, err
	}
	if !t.Refresh {
		return first, nil
	}
	f := &freshFiles{TLS: *t, log: log, now: time.Now, current: first, stamp: t.stamp()}
	f.checked = f.now()
	return &tls.Config{MinVersion: first.MinVersion,
		Certificates:       first.Certificates, // net/http wants one; the next line decides
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.get(), nil }}, nil
}

func (t *TLS) load() (*tls.Config, error) {
	keyFile := t.KeyFile
	if keyFile == "" {
		keyFile = t.CertFile
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("--ssl-certfile %s, --ssl-keyfile %s: %w", t.CertFile, keyFile, err)
	}
	suites, err := cipherSuites(t.Ciphers)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, CipherSuites: suites}
	if t.CAFile != "" {
		if c.ClientCAs, err = loadCAs(t.CAFile); err != nil {
			return nil, err
		}
	}
	switch t.ClientCerts {
	case ClientCertsOptional:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case ClientCertsRequired:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func loadCAs(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--ssl-ca-certs: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("--ssl-ca-certs %s holds no certificate in PEM form", path)
	}
	return pool, nil
}

// stamp tells one state of the files from another.
func (t *TLS) stamp() string {
	var b strings.Builder
	for _, path := range []string{t.CertFile, t.KeyFile, t.CAFile} {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(&b, "%s %d %d;", path, info.ModTime().UnixNano(), info.Size())
		}
	}
	return b.String()
}

// refreshInterval is how often the files are looked at, when connections come.
const refreshInterval = time.Second

// freshFiles gives the configuration of the files as they are. While what they
// hold cannot be used, as in the middle of a renewal, the last one stands.
type freshFiles struct {
	TLS
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards what follows
	current *tls.Config
	stamp   string
	checked time.Time
}

func (f *freshFiles) get() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now().Sub(f.checked) < refreshInterval {
		return f.current
	}
	f.checked = f.now()
	stamp := f.TLS.stamp()
	if stamp == f.stamp {
		return f.current
	}
	f.stamp = stamp
	next, err := f.load()
	if err != nil {
		f.log.Error("the TLS files have changed and cannot be used; those read before stay", "error", err)
		return f.current
	}
	f.log.Info("TLS files read again")
	f.current = next
	return f.current
}

// openSSLNames are the suites of TLS 1.2 that Go deems secure, which those of
// OpenSSL's lists that it lacks are not. TLS 1.3 has no choice.
var openSSLNames = map[string]uint16{
	"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	"ECDHE-RSA-AES128-GCM-SHA256":   tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	"ECDHE-RSA-AES256-GCM-SHA384":   tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	"ECDHE-RSA-CHACHA20-POLY1305":   tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

func cipherSuites(list string) (suites []uint16, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ":") {
		id, ok := openSSLNames[name]
		if !ok {
			return nil, fmt.Errorf("--ssl-ciphers: %q is not served; there are %s", name, strings.Join(cipherNames(), ":"))
		}
		suites = append(suites, id)
	}
	return suites, nil
}

func cipherNames() []string {
	names := make([]string, 0, len(openSSLNames))
	for n := range openSSLNames {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
