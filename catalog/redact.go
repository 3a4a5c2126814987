package catalog

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// scrubber takes secrets out of errors at the package's border. Libraries and
// servers quote what they were given, so that no list of places would be
// complete: the values themselves are looked for.
type scrubber struct{ secrets []string }

const redacted = "[redacted]"

// secretBytesMin is the shortest value that is looked for; shorter ones would hit ordinary words.
const secretBytesMin = 4

// harmless are properties whose values help to understand an error.
var harmless = regexp.MustCompile(`(?i)^(uri|type|name|warehouse|prefix|scope|audience|resource|oauth2-server-uri|rest\.(authorization-url|sigv4-enabled|signing-region|signing-name|tls\.skip-verify)|snapshot-loading-mode|namespace-separator|io-impl|.*(region|endpoint|path-style-access|virtual-addressing|enabled|timeout|timeout-ms|host|protocol|skip-verify))$`)

func newScrubber(c Config) *scrubber {
	s := &scrubber{}
	for key, value := range c.Properties {
		if !harmless.MatchString(key) {
			s.add(value)
			s.add(base64.StdEncoding.EncodeToString([]byte(value)))
		}
		if _, secret, ok := strings.Cut(value, ":"); ok && key == "credential" {
			s.add(secret)
		}
		s.addURL(value)
	}
	s.addURL(c.URI)
	s.addURL(c.Warehouse)
	// The longest first: one secret may be part of another.
	slices.SortFunc(s.secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	s.secrets = slices.Compact(s.secrets)
	return s
}

func (s *scrubber) add(secret string) {
	if len(secret) < secretBytesMin || secret == "true" || secret == "false" {
		return
	}
	s.secrets = append(s.secrets, secret)
	if q := url.QueryEscape(secret); q != secret {
		s.secrets = append(s.secrets, q)
	}
	if p := url.PathEscape(secret); p != secret {
		s.secrets = append(s.secrets, p)
	}
}

// addURL adds the password and the options' values of a URL.
func (s *scrubber) addURL(text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		s.add(password)
	}
	for key, values := range u.Query() {
		if secretName.MatchString(key) {
			for _, v := range values {
				s.add(v)
			}
		}
	}
}

var (
	secretName = regexp.MustCompile(`(?i)(password|passwd|pwd|secret|token|credential|signature|sig|key)`)

	// Secrets that were not ours to know, by their form.
	userInfo   = regexp.MustCompile(`(://)[^/@\s"']*:[^/@\s"']*@`)
	authScheme = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{4,}`)
	assignment = regexp.MustCompile(`(?i)\b((?:password|passwd|pwd|client_secret|secret|access_token|refresh_token|id_token|session_token|sas_token|token|credential|signature|sig|x-amz-signature|x-amz-security-token|x-amz-credential|authorization)["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s&,;}"']+)`)
)

// text returns s without secrets.
func (s *scrubber) text(t string) string {
	for _, secret := range s.secrets {
		t = strings.ReplaceAll(t, secret, redacted)
	}
	t = userInfo.ReplaceAllString(t, "${1}"+redacted+"@")
	t = authScheme.ReplaceAllString(t, "${1}${2}"+redacted)
	return assignment.ReplaceAllString(t, "${1}"+redacted)
}

// error returns err with a text without secrets. errors.Is and errors.As see
// through it; the original text cannot be had from it.
func (s *scrubber) error(err error) error {
	if err == nil {
		return nil
	}
	if t := s.text(err.Error()); t != err.Error() {
		return &scrubbed{text: t, inner: err}
	}
	return err
}

// scrubbed has no Unwrap, so that nobody prints the inner error by accident.
type scrubbed struct {
	text  string
	inner error
}

func (e *scrubbed) Error() string        { return e.text }
func (e *scrubbed) Is(target error) bool { return errors.Is(e.inner, target) }
func (e *scrubbed) As(target any) bool   { return errors.As(e.inner, target) }
