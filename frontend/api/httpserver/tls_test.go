package httpserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCert writes a self-signed certificate with its key to one file. It is
// its own authority.
func writeCert(t *testing.T, path, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveTLS serves until the test ends and returns the address.
func serveTLS(t *testing.T, files TLS) string {
	t.Helper()
	cfg := config()
	cfg.TLS = files
	s := newServer(t, cfg, echo)
	l, err := Listen("127.0.0.1", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
	return l.Addr().String()
}

// get asks for /health with a client certificate, if given, and returns the
// name in the server's certificate.
func get(t *testing.T, address, caFile, clientCert string) (string, error) {
	t.Helper()
	roots, err := loadCAs(caFile)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: roots}
	if clientCert != "" {
		cert, err := tls.LoadX509KeyPair(clientCert, clientCert)
		if err != nil {
			t.Fatal(err)
		}
		// Whatever authorities the server names.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	resp, err := client.Get("https://" + address + "/health")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/health is %d", resp.StatusCode)
	}
	return resp.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	server, client, stranger := filepath.Join(dir, "server"), filepath.Join(dir, "client"), filepath.Join(dir, "stranger")
	for _, path := range []string{server, client, stranger} {
		writeCert(t, path, filepath.Base(path))
	}
	for _, tc := range []struct {
		name  string
		files TLS
		cert  string
		ok    bool
	}{
		{"no client certificate asked for", TLS{CertFile: server}, "", true},
		{"key of its own file", TLS{CertFile: server, KeyFile: server}, "", true},
		{"cipher", TLS{CertFile: server, Ciphers: "ECDHE-ECDSA-AES256-GCM-SHA384"}, "", true},
		{"optional, none", TLS{CertFile: server, CAFile: client, ClientCerts: ClientCertsOptional}, "", true},
		{"optional, wrong", TLS{CertFile: server, CAFile: client, ClientCerts: ClientCertsOptional}, stranger, false},
		{"required, none", TLS{CertFile: server, CAFile: client, ClientCerts: ClientCertsRequired}, "", false},
		{"required, right", TLS{CertFile: server, CAFile: client, ClientCerts: ClientCertsRequired}, client, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if name, err := get(t, serveTLS(t, tc.files), server, tc.cert); (err == nil) != tc.ok || tc.ok && name != "server" {
				t.Errorf("get = %q, %v, want ok %t", name, err, tc.ok)
			}
		})
	}
}

// With Refresh a renewed certificate is served at the next look; a broken file
// is not.
func TestTLSRefresh(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert")
	writeCert(t, path, "old")
	now := time.Unix(1000, 0)
	files := TLS{CertFile: path, Refresh: true}
	first, err := files.load()
	if err != nil {
		t.Fatal(err)
	}
	f := &freshFiles{TLS: files, log: config().Log, now: func() time.Time { return now }, current: first, stamp: files.stamp(), checked: now}
	name := func() string { return f.get().Certificates[0].Leaf.Subject.CommonName }

	writeCert(t, path, "renewed")
	if got := name(); got != "old" {
		t.Errorf("within the second the files are not looked at: %s", got)
	}
	now = now.Add(2 * refreshInterval)
	if got := name(); got != "renewed" {
		t.Errorf("the certificate is %s, want renewed", got)
	}
	if err := os.WriteFile(path, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * refreshInterval)
	if got := name(); got != "renewed" {
		t.Errorf("a broken file gives %s, want renewed", got)
	}
	writeCert(t, path, "third")
	now = now.Add(2 * refreshInterval)
	if got := name(); got != "third" {
		t.Errorf("the certificate is %s, want third", got)
	}
	writeCert(t, path, "served")
	if got, err := get(t, serveTLS(t, files), path, ""); err != nil || got != "served" {
		t.Errorf("get = %q, %v, want served", got, err)
	}
}
