package writers

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// secretProperties are endings of property names whose values are secret.
var secretProperties = []string{"secret-access-key", "session-token", "secret", "token", "jsonkey", "account.key", "password", "credential"}

// secretPrefixes are beginnings of such names.
var secretPrefixes = []string{"adls.sas-token.", "adls.connection-string."}

// secretsOf collects the secret values of store properties, longest first, so
// that a secret within another leaves nothing behind.
func secretsOf(properties map[string]string) []string {
	var secrets []string
	for name, value := range properties {
		lower := strings.ToLower(name)
		isSecret := slices.ContainsFunc(secretProperties, func(end string) bool { return strings.HasSuffix(lower, end) }) ||
			slices.ContainsFunc(secretPrefixes, func(start string) bool { return strings.HasPrefix(lower, start) })
		if isSecret {
			secrets = append(secrets, value)
			secrets = append(secrets, secretParts(value)...)
		}
		if u, err := url.Parse(value); err == nil && u.User != nil {
			password, _ := u.User.Password()
			secrets = append(secrets, password)
		}
	}
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < secretBytesMin })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return secrets
}

// secretParts finds the secrets within a SAS token or a connection string, as
// they are and decoded: stores quote them in either form.
func secretParts(value string) []string {
	var parts []string
	for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == '&' || r == '?' }) {
		name, part, _ := strings.Cut(pair, "=")
		switch strings.ToLower(name) {
		case "sig", "accountkey", "sharedaccesssignature":
			parts = append(parts, part)
			if decoded, err := url.QueryUnescape(part); err == nil {
				parts = append(parts, decoded)
			}
		}
	}
	return parts
}

// secretBytesMin: shorter values would blot out ordinary words.
const secretBytesMin = 4

// Secrets that are recognised by their shape, wherever they come from.
var secretShapes = []struct {
	shape *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), "***"},
	{regexp.MustCompile(`(?i)\b(https?|s3[an]?|gs|abfss?|wasbs?)(://[^\s"'<>?]*)\?[^\s"'<>]*`), "$1$2?***"}, // query strings: signatures
	{regexp.MustCompile(`(?i)\b([a-z][a-z0-9+.-]*://)[^/\s"'@?#]*:[^/\s"'@?#]*@`), "$1***@"},                // user:password@
	{regexp.MustCompile(`(?i)\b(authorization|x-amz-security-token|x-goog-[a-z-]*signature)(["']?\s*[:=]\s*)[^\r\n]+`), "$1$2***"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 ***"},
	{regexp.MustCompile(`(?i)\b(accountkey|sharedaccesssignature|sharedaccesskey|sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|secret[a-z_.-]*|password|passwd|access_token|refresh_token|id_token|client_secret|private_key|session-token|api_?key)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s"'&;,<>]+)`), "$1$2***"},
}

// redact takes secrets out of a text: those that are known, and everything that
// has the shape of one (signatures, tokens, passwords, query strings of URLs).
// It is the only place that does.
func redact(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	for _, s := range secretShapes {
		text = s.shape.ReplaceAllString(text, s.with)
	}
	return text
}

// errorBytesMax bounds the text of an answer, which may be a whole page.
const errorBytesMax = 1000

// redactError returns an error that says what err says, in one line and without
// secrets, and is what err is.
func redactError(err error, secrets []string) error {
	text := strings.Join(strings.Fields(redact(err.Error(), secrets)), " ")
	if len(text) > errorBytesMax {
		text = strings.ToValidUTF8(text[:errorBytesMax], "") + "..."
	}
	return &redacted{text: text, err: err}
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

// Is and As see through; Unwrap would let others print what was taken out.
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }
func (r *redacted) As(target any) bool   { return errors.As(r.err, target) }
