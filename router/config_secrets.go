package router

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A secret shorter than secretBytesMin is not searched for in texts: masking
// every "a" would hide the text and not the secret. Load warns about it.
const secretBytesMin = 4

const secretMask = "***"

// secretFileBytesMax bounds a ${file:…}: a secret is not a disk image.
const secretFileBytesMax = 1 << 20

// secrets is the set of values no text may show.
type secrets struct {
	values   []string
	replacer *strings.Replacer // nil: nothing to hide
}

// newSecrets makes the set ready to mask each value in all the spellings that
// libraries print: as it is, escaped for JSON, Go and URLs, and in base64.
func newSecrets(values []string) secrets {
	spellings := map[string]bool{}
	add := func(v string) {
		if len(v) < secretBytesMin {
			return
		}
		spellings[v] = true
		spellings[url.QueryEscape(v)] = true
		spellings[url.PathEscape(v)] = true
		_, user, _ := strings.Cut(url.UserPassword("", v).String(), ":")
		spellings[user] = true
		spellings[strings.Trim(strconv.Quote(v), `"`)] = true
		if j, err := json.Marshal(v); err == nil {
			spellings[strings.Trim(string(j), `"`)] = true
		}
		spellings[base64.StdEncoding.EncodeToString([]byte(v))] = true
		spellings[base64.RawURLEncoding.EncodeToString([]byte(v))] = true
	}
	for _, v := range values {
		add(v)
		if id, secret, ok := strings.Cut(v, ":"); ok && id != "" { // an OAuth credential is id:secret
			add(secret)
		}
		if lines := strings.Fields(v); len(lines) > 1 { // a PEM text may be printed a line at a time
			for _, line := range lines {
				if len(line) >= 16 {
					add(line)
				}
			}
		}
	}
	if len(spellings) == 0 {
		return secrets{values: values}
	}
	sorted := make([]string, 0, len(spellings))
	for s := range spellings {
		sorted = append(sorted, s)
	}
	slices.SortFunc(sorted, func(a, b string) int { // the longest first, or a part would be masked and the rest shown
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, s := range sorted {
		pairs = append(pairs, s, secretMask)
	}
	return secrets{values: values, replacer: strings.NewReplacer(pairs...)}
}

func (s secrets) mask(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// Redact returns s with every secret of the configuration masked: values that
// came from files or the environment, values of keys that are named like
// secrets, and passwords in URLs. Everything that leaves the process for a
// person to read goes through it.
func (c Config) Redact(s string) string { return c.secrets.mask(s) }

// String hides the configuration from a careless %v.
func (c Config) String() string {
	return fmt.Sprintf("config of %d ingests and %d publishes", len(c.Ingest), len(c.Publish))
}

// String hides the password.
func (c SASLConfig) String() string { return c.Mechanism + " as " + c.Username }

// String hides the properties, which may carry keys, and the URI, which may
// carry a password.
func (c CatalogConfig) String() string { return c.Type + " catalog " + c.Name }

// harvest adds the secrets of a configuration that was made in code, so that
// Redact also serves a Config that no file holds.
func (c Config) harvest() []string {
	var found []string
	if c.Kafka.SASL != nil {
		found = append(found, c.Kafka.SASL.Password)
	}
	found = append(found, urlSecrets(c.Catalog.URI)...)
	for k, v := range c.Catalog.Properties {
		if isSecretName(k) {
			found = append(found, v)
		}
		found = append(found, urlSecrets(v)...)
	}
	return found
}

// secretName finds names of keys whose values are nobody's business.
var secretName = regexp.MustCompile(`(?i)(password|passwd|authorization|cookie|secret|token|credential|(^|[._-])(access|api|account|shared|private|encryption|sas|secret)?[._-]?key([._-]id)?$|sas[._-]|signature)`)

// publicName finds names that look secret and are not.
var publicName = regexp.MustCompile(`(?i)(_file$|uri$|url$|endpoint$|expires|refresh-enabled|token-exchange|provider$|(^|\.)key_(field|column)$|^publish\[\d+\]\.(key|headers\..*)$)`)

func isSecretName(name string) bool {
	return secretName.MatchString(name) && !publicName.MatchString(name)
}

// publicProperty finds catalog properties whose value is no secret even when
// it came from the environment: masking an endpoint would only make errors
// unreadable.
var publicProperty = regexp.MustCompile(`(?i)(endpoint|uri|region|path-style-access|warehouse|name)$`)

// urlSecrets returns the passwords within a text that is a URL.
func urlSecrets(text string) []string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		// The database driver may accept what net/url does not: a raw % in the password.
		if m := looseUserinfo.FindStringSubmatch(text); m != nil {
			return []string{m[1]}
		}
		var found []string
		for _, m := range wordPassword.FindAllStringSubmatch(text, -1) {
			found = append(found, strings.Trim(m[1], "'"))
		}
		return found
	}
	var found []string
	if u.User != nil {
		if p, ok := u.User.Password(); ok && p != "" {
			found = append(found, p)
			if m := looseUserinfo.FindStringSubmatch(text); m != nil && m[1] != p {
				found = append(found, m[1])
			}
		}
	}
	for name, values := range u.Query() {
		if isSecretName(name) || strings.EqualFold(name, "sig") {
			found = append(found, values...)
		}
	}
	return found
}

var looseUserinfo = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://[^:/@]*:(.+)@`)

// wordPassword finds passwords in a connection string of words, as libpq reads
// it: host=db password=x.
var wordPassword = regexp.MustCompile(`(?i)password\s*=\s*('[^']*'|\S+)`)

// expansion is a string of the file with its references resolved.
type expansion struct {
	text     string
	secrets  []string // what references were replaced by
	files    bool     // one of them was a file
	warnings []string
}

var reference = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}?`)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand resolves ${NAME} from the environment and ${file:/path} from a file,
// one trailing newline removed. $${ stands for ${ itself. What a reference
// brought is not expanded again.
func expand(text string) (expansion, error) {
	var out expansion
	var problem error
	fail := func(format string, args ...any) string {
		if problem == nil {
			problem = fmt.Errorf(format, args...)
		}
		return ""
	}
	out.text = reference.ReplaceAllStringFunc(text, func(match string) string {
		inner, closed := strings.CutSuffix(strings.TrimPrefix(match, "${"), "}")
		path, isFile := strings.CutPrefix(inner, "file:")
		switch {
		case match == "$${":
			return "${"
		case !closed:
			return fail(`"${" without "}"; write ${NAME} or ${file:/path}, or $${ for the two characters themselves`)
		case isFile:
			value, warning, err := readSecret(path)
			if err != nil {
				return fail("%w", err)
			}
			if warning != "" {
				out.warnings = append(out.warnings, warning)
			}
			out.files = true
			out.secrets = append(out.secrets, value)
			return value
		case !envName.MatchString(inner):
			return fail("%s is no reference; write ${NAME} for an environment variable, ${file:/path} for a file, or $${ for the two characters themselves", match)
		}
		value, set := os.LookupEnv(inner)
		if !set {
			return fail("environment variable %s is not set; set it for the process (systemd: Environment=, EnvironmentFile=), or use ${file:/path}", inner)
		}
		out.secrets = append(out.secrets, value)
		return value
	})
	return out, problem
}

// readSecret returns the content of a secret file, and a warning where others
// can read it too.
func readSecret(path string) (value, warning string, err error) {
	if path == "" {
		return "", "", fmt.Errorf("${file:} names no file; write ${file:/path}")
	}
	stat, err := os.Stat(path)
	if err != nil {
		return "", "", fmt.Errorf("read secret: %w", err)
	}
	if stat.IsDir() || stat.Size() > secretFileBytesMax {
		return "", "", fmt.Errorf("secret file %s is a folder or larger than %s", path, Bytes(secretFileBytesMax))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read secret: %w", err)
	}
	if stat.Mode().Perm()&0o004 != 0 {
		warning = fmt.Sprintf("secret file %s is readable by every user (mode %04o); chmod 600 it", path, stat.Mode().Perm())
	}
	value = strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if value == "" {
		return "", "", fmt.Errorf("secret file %s is empty", path)
	}
	return value, warning, nil
}
