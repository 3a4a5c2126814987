package router

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// planted are secrets that break naive masking: quotes, percent signs, lines.
var planted = map[string]string{
	"sasl":  `pl"anted\one`,
	"uri":   "pl@nted%two",
	"prop":  "planted-three/+=",
	"file":  "planted-four\nplanted-four-second-line",
	"oauth": "client:planted-five",
}

func plantedConfig() Config {
	c := Default()
	c.Kafka.SASL = &SASLConfig{Mechanism: "PLAIN", Username: "user", Password: planted["sasl"]}
	c.Catalog.URI = "postgres://user:" + url.QueryEscape(planted["uri"]) + "@host/db"
	c.Catalog.Properties = map[string]string{"s3.secret-access-key": planted["prop"], "credential": planted["oauth"]}
	c.secrets = newSecrets(append(c.harvest(), planted["file"]))
	c.Log.Level = "debug"
	return c
}

type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type object struct{ s string }

func (o object) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("inner", o.s)
	return e.AddReflected("deep", map[string][]string{"list": {o.s}})
}

type nilError struct{ s *string }

func (e *nilError) Error() string { return *e.s }

// TestLogMasks gives each secret to the logger in every way there is.
func TestLogMasks(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		c := plantedConfig()
		c.Log.Format = format
		var out bytes.Buffer
		log, err := NewLog(c, &out)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range planted {
			wrapped := fmt.Errorf("dial: %w", errors.Join(errors.New(s), errors.New("https://h/?token="+url.QueryEscape(s))))
			log.Debug("text "+s, zap.String("string", s), zap.Error(wrapped), zap.Stringer("stringer", stringer{s}),
				zap.Strings("strings", []string{s}), zap.ByteString("bytes", []byte(s)), zap.Binary("binary", []byte(s)),
				zap.Any("struct", struct{ A, b any }{s, []any{s}}), zap.Any("map", map[string]string{s: s}), zap.Any("header", http.Header{"X": {s}}),
				zap.Object("object", object{s}), zap.Inline(object{s}), zap.Errors("errors", []error{wrapped}), zap.Any("anys", []any{s, 1}),
				zap.String("basic", base64.StdEncoding.EncodeToString([]byte(s))), zap.Stringp("pointer", &s), zap.Any("config", c),
				zap.String("quoted", fmt.Sprintf("%q", s)), zap.Dict("dict", zap.String("s", s)))
			log.With(zap.String("with", s)).Named(s).Warn("child")
		}
		var broken *nilError
		log.Error("plain", zap.Int("n", 7), zap.Duration("took", time.Second), zap.Bool("ok", true), zap.Error(broken), zap.Error(nil), zap.Time("at", noon))
		checkNoSecret(t, out.String())
		if format == "console" {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Errorf("not JSON: %v\n%s", err, line)
			}
		}
		if !strings.Contains(out.String(), `"msg":"plain","n":7,"took":1,"ok":true`) {
			t.Errorf("plain fields are not as they were:\n%s", out.String())
		}
	}
}

// checkNoSecret looks for the planted secrets in all spellings.
func checkNoSecret(t *testing.T, text string) {
	t.Helper()
	if i := strings.Index(text, "lanted"); i >= 0 {
		t.Errorf("a secret is shown: …%s…", text[max(i-100, 0):min(i+100, len(text))])
	}
	for name, s := range planted {
		for _, spelled := range []string{base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)), url.QueryEscape(s)} {
			if strings.Contains(text, spelled) {
				t.Errorf("secret %s is shown as %s", name, spelled)
			}
		}
	}
}

func TestRedact(t *testing.T) {
	c := plantedConfig()
	for _, s := range planted {
		checkNoSecret(t, c.Redact("a "+s+" b "+fmt.Sprintf("%q", s)+url.PathEscape(s)))
	}
	checkNoSecret(t, c.Redact(c.Catalog.URI))
	checkNoSecret(t, fmt.Sprintf("%v %+v %s", c, c, c.Kafka.SASL)+fmt.Sprintf("%v %+v", c.Catalog, *c.Kafka.SASL))
	if got := c.Redact("nothing to hide"); got != "nothing to hide" {
		t.Errorf("got %q", got)
	}
	var out bytes.Buffer
	if n, err := io.WriteString(c.MaskWriter(&out), planted["sasl"]); err != nil || n != len(planted["sasl"]) || out.String() != secretMask {
		t.Errorf("wrote %q, %d, %v", out.String(), n, err)
	}
}

func TestLogLevel(t *testing.T) {
	c := Default()
	c.Log.Level = "warn"
	var out bytes.Buffer
	log, err := NewLog(c, &out)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("unseen")
	log.Warn("seen")
	if strings.Contains(out.String(), "unseen") || !strings.Contains(out.String(), `"level":"warn"`) {
		t.Error(out.String())
	}
}

// TestSecretNames holds the list of names to what people configure.
func TestSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "kafka.sasl.password": true, "s3.secret-access-key": true, "s3.access-key-id": true, "s3.session-token": true,
		"credential": true, "token": true, "header.Authorization": true, "adls.sas-token.account": true, "adls.auth.shared-key.account.key": true,
		"gcs.oauth2.token": true, "kafka.tls.key_file": false, "s3.endpoint": false, "oauth2-server-uri": false, "token-refresh-enabled": false,
		"warehouse": false, "topics": false, "keep_snapshots": false, "gcs.oauth2.token-expires-at": false, "rest.sigv4-enabled": false,
	} {
		if isSecretName(name) != want {
			t.Errorf("isSecretName(%q) = %v", name, !want)
		}
	}
}
