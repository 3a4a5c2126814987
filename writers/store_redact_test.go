package writers

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"
)

// TestRedact plants secrets in the texts that stores and clients are known to
// produce.
func TestRedact(t *testing.T) {
	const s = "pl4ntedS3cret/+x=="
	for _, text := range []string{
		"Get https://b.s3.amazonaws.com/k?X-Amz-Algorithm=A&X-Amz-Signature=" + s + ": EOF",
		"PUT https://acc.blob.core.windows.net/c/k?sv=2024&sig=" + s + "&sp=r failed",
		"url s3://b/k?token=" + s,
		"proxyconnect http://user:" + url.QueryEscape(s) + "@proxy:3128: refused",
		"header Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=" + s,
		`{"authorization":"Bearer ` + s + `"}`,
		"Bearer " + s,
		"AccountName=a;AccountKey=" + s + ";EndpointSuffix=x",
		"SharedAccessSignature=" + s,
		"secret_access_key = " + s,
		"s3.secret-access-key=" + s,
		"password: '" + s + "'",
		`"access_token": "` + s + `"`,
		`"private_key": "-----BEGIN PRIVATE KEY-----\n` + s + `\n-----END PRIVATE KEY-----\n"`,
		"-----BEGIN RSA PRIVATE KEY-----\n" + s,
		"x-amz-security-token=" + s,
		"unknown shape " + s + "?",
	} {
		got := redact(text, []string{s})
		if strings.Contains(got, s) || strings.Contains(got, "pl4nted") {
			t.Errorf("%q shows the secret: %q", text, got)
		}
		if !strings.HasPrefix(text, "unknown") { // known by its shape alone
			if got := redact(text, nil); strings.Contains(got, "pl4nted") {
				t.Errorf("%q shows the secret by shape: %q", text, got)
			}
		}
	}
	for _, text := range []string{
		"put s3://lake/wh/db.t/data/id_bucket=3/0.parquet: AccessDenied",
		"open /var/lib/x: permission denied",
		"dial tcp 10.0.0.1:9000: connect: connection refused",
		"key id AKIAEXAMPLE is unknown",
	} {
		if got := redact(text, []string{s}); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestSecretsOf(t *testing.T) {
	properties := map[string]string{
		"s3.access-key-id": "AKIAVISIBLE", "s3.region": "visible-1", "s3.endpoint": "http://visible",
		"s3.secret-access-key": "secret-1", "s3.session-token": "secret-2", "gcs.oauth2.token": "secret-3", "gcs.jsonkey": "{secret-4}",
		"adls.sas-token.acc": "sv=1&sig=secret%2F5", "adls.connection-string.acc": "AccountName=visible;AccountKey=secret-6==",
		"adls.auth.shared-key.account.key": "secret-7", "adls.client-secret": "secret-8", "s3.proxy-uri": "http://u:secret-9@h",
		"token": "secret-10", "credential": "id:secret-11", "s3.sse.key": "abc",
	}
	secrets := secretsOf(properties)
	text := "AKIAVISIBLE visible-1 http://visible secret-1 secret-2 secret-3 {secret-4} secret%2F5 secret/5 secret-6== secret-7 secret-8 secret-9 secret-10 id:secret-11"
	if got := redact(text, secrets); strings.Contains(got, "secret") || !strings.HasPrefix(got, "AKIAVISIBLE visible-1 http://visible *** ") {
		t.Errorf("%q", got)
	}
}

// TestRedactError: what is taken out can't be had by unwrapping, and what the
// error is stays known.
func TestRedactError(t *testing.T) {
	err := redactError(fmt.Errorf("with topsecret\n  in two lines: %w", fs.ErrNotExist), []string{"topsecret"})
	if err.Error() != "with *** in two lines: file does not exist" || !errors.Is(err, fs.ErrNotExist) || errors.Unwrap(err) != nil {
		t.Errorf("%v", err)
	}
	if long := redactError(errors.New(strings.Repeat("é", 5000)), nil).Error(); len(long) > errorBytesMax+3 {
		t.Errorf("%d bytes", len(long))
	}
}
