package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A configuration with mistakes is reported without what it may hide: values of
// keys that are none, whatever stands in the sections made for secrets, and
// passwords within connection strings.
func TestSecretsInProblems(t *testing.T) {
	const secret = "TOPSECRET-12345"
	for _, text := range []string{
		"[kafka.sasl]\npasword = \"" + secret + "\"",
		"[kafka.sasl]\npw = \"" + secret + "\"\nmechanism = \"NONE\"",
		"[kafka.sasl]\nsasl_jaas_config = \"" + secret + "\"",
		"[kafka]\npasword = \"" + secret + "\"",
		"pasword = \"" + secret + "\"",
		"[catalog]\ntokn = \"" + secret + "\"",
		"[catalog.properties]\ntokn = [\"" + secret + "\"]",
		"[catalog.properties]\n\"credentail\" = [\"" + secret + "\"]",
		"[catalog]\ntype = \"sql\"\nuri = \"host=127.0.0.1 password=" + secret + " user=x\"",
		"[catalog]\ntype = \"sql\"\nuri = \"host=127.0.0.1 password='" + secret + "' user=x\"",
		"[[ingest]]\nname = \"a\"\npassphrase = \"" + secret + "\"",
	} {
		path := filepath.Join(t.TempDir(), "router.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := Load(path)
		if err == nil {
			t.Fatalf("%s\nno error", text)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s\nprints the secret:\n%v", text, err)
		}
	}
}
