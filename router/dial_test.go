package router

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"testing"
)

// TestSecured puts TLS on what a dial function makes, and trusts whom the
// configuration trusts.
func TestSecured(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	address := server.Listener.Addr().String()
	dials := 0
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	c, err := secured(dial, &tls.Config{RootCAs: trusted})(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.(*tls.Conn).ConnectionState(); !s.HandshakeComplete || s.ServerName != "" && s.ServerName != "127.0.0.1" {
		t.Errorf("%+v", s)
	}
	_ = c.Close()
	if _, err := secured(dial, &tls.Config{RootCAs: x509.NewCertPool()})(t.Context(), "tcp", address); err == nil {
		t.Error("a stranger's certificate was trusted")
	}
	if _, err := secured(dial, nil)(t.Context(), "tcp", address); err != nil || dials != 3 {
		t.Errorf("%d dials, %v", dials, err)
	}
}
