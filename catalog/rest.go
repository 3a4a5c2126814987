package catalog

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
)

// openREST connects to an Iceberg REST catalog. Every property goes through as
// it is: credential, token, oauth2-server-uri, scope, prefix, rest.sigv4-*, header.X.
//
// Source: Iceberg REST catalog OpenAPI; property names as in iceberg-go's rest.go.
func (c *Catalog) openREST(ctx context.Context) error {
	if c.config.URI == "" {
		return errors.New("uri is missing: set [catalog] uri to the server's address, as http://localhost:8181")
	}
	properties := maps.Clone(c.properties)
	properties["type"], properties["uri"] = "rest", c.config.URI
	if c.config.Warehouse != "" {
		properties["warehouse"] = c.config.Warehouse
	}
	ctx, h := withHint(ctx)
	cat, err := newREST(ctx, c.config, properties)
	if err != nil {
		return fmt.Errorf("connect to %s: %w%s", c.config.URI, h.explain(err), restRemedy(err, h.status))
	}
	c.io = cat
	c.closers = append(c.closers, cat.Close)
	return nil
}

func newREST(ctx context.Context, config Config, properties map[string]string) (*rest.Catalog, error) {
	options, err := restOptions(config, properties)
	if err != nil {
		return nil, err
	}
	return rest.NewCatalog(ctx, config.Name, config.URI, options...)
}

// restOptions hands all properties on, and those that the first request
// already needs under their own options too.
func restOptions(config Config, properties map[string]string) ([]rest.Option, error) {
	options := []rest.Option{
		rest.WithAdditionalProps(properties),
		rest.WithWarehouseLocation(properties["warehouse"]),
		rest.WithOAuthToken(properties["token"]),
		rest.WithCredential(properties["credential"]),
		rest.WithScope(properties["scope"]),
		rest.WithAudience(properties["audience"]),
		rest.WithResource(properties["resource"]),
		rest.WithPrefix(properties["prefix"]),
		rest.WithTransportFactory(func(t *tls.Config) (http.RoundTripper, func()) {
			transport := newTransport(t)
			if config.Dial != nil {
				transport.DialContext = config.Dial
			}
			return listener{transport}, transport.CloseIdleConnections
		}),
	}
	server := properties["oauth2-server-uri"]
	if server == "" {
		server = properties["rest.authorization-url"]
	}
	if server != "" {
		u, err := url.Parse(server)
		if err != nil || u.Scheme == "" || u.Host == "" {
			return nil, errors.New("oauth2-server-uri must be a full URL")
		}
		options = append(options, rest.WithAuthURI(u))
	}
	if strings.EqualFold(properties["rest.sigv4-enabled"], "true") {
		options = append(options, rest.WithSigV4RegionSvc(properties["rest.signing-region"], properties["rest.signing-name"]))
	}
	if strings.EqualFold(properties["rest.tls.skip-verify"], "true") {
		options = append(options, rest.WithTLSConfig(&tls.Config{InsecureSkipVerify: true}))
	}
	return options, nil
}

// restRemedy says what to look at.
func restRemedy(err error, status int) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case status == http.StatusNotFound:
		return " (check that [catalog] uri is the catalog's root, without /v1)"
	case errors.Is(err, rest.ErrOAuthError) && status != http.StatusUnauthorized:
		return " (check credential, token, scope and oauth2-server-uri in [catalog.properties], and that [catalog] uri is the catalog's root, without /v1)"
	case status == http.StatusUnauthorized:
		return " (check credential, token, scope and oauth2-server-uri in [catalog.properties])"
	case status == http.StatusForbidden:
		return " (the catalog knows these credentials but refuses them: check the grants, and warehouse)"
	case status == http.StatusBadRequest:
		return " (check warehouse and prefix, and that uri leads to an Iceberg REST catalog)"
	case errors.As(err, &dns), errors.As(err, &op), errors.Is(err, context.DeadlineExceeded):
		return " (check [catalog] uri, and that the server runs and is reachable from here)"
	case errors.Is(err, rest.ErrRESTError):
		return " (check that [catalog] uri is the catalog's root, without /v1)"
	}
	return ""
}

// hint is what an answer tells beyond the body. A call puts one into its context.
type hint struct {
	status     int
	retryAfter time.Duration
	stranger   bool // a 404 that no catalog has written: its body is no JSON object
}

// explain adds the HTTP status, which iceberg-go's errors don't always show.
func (h *hint) explain(err error) error {
	if h.status >= 400 {
		return fmt.Errorf("HTTP %d: %w", h.status, err)
	}
	return err
}

type hintKey struct{}

// withHint returns a context whose REST calls fill the hint.
func withHint(ctx context.Context) (context.Context, *hint) {
	h := &hint{}
	return context.WithValue(ctx, hintKey{}, h), h
}

// listener notes the status and the Retry-After of answers, which iceberg-go keeps to itself.
type listener struct{ inner http.RoundTripper }

func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	rsp, err := l.inner.RoundTrip(r)
	if h, ok := r.Context().Value(hintKey{}).(*hint); ok && err == nil {
		h.status, h.retryAfter = rsp.StatusCode, retryAfter(rsp.Header.Get("Retry-After"), time.Now())
		h.stranger = rsp.StatusCode == http.StatusNotFound && r.Method != http.MethodHead && !saysJSON(rsp)
	}
	return rsp, err
}

// saysJSON tells whether an answer's body is a JSON object, as every error of a
// catalog is, and leaves the body to be read.
func saysJSON(rsp *http.Response) bool {
	head, err := io.ReadAll(io.LimitReader(rsp.Body, errorBytesMax))
	rsp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rsp.Body), rsp.Body}
	var object map[string]json.RawMessage
	return err == nil && json.Unmarshal(head, &object) == nil
}

// errorBytesMax bounds what is looked at of an error's body.
const errorBytesMax = 64 << 10

// retryAfterMax bounds the patience a server can ask for.
const retryAfterMax = time.Minute

// retryAfter reads seconds or an HTTP date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, retryAfterMax)
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), retryAfterMax)
	}
	return 0
}

// newTransport is net/http's with limits for the time a server may keep silent.
func newTransport(security *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	t.ResponseHeaderTimeout = commitTimeout
	if security != nil {
		t.TLSClientConfig = security
	}
	return t
}
