package router

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Load reads the file at path over the defaults and validates the result. The
// error of a file that is not right is a *ConfigError with every problem in
// it; warnings are complete lines for the log. No text of either shows a secret.
//
//	parse → places of the keys → values into the struct → bounds → report
func Load(path string) (cfg Config, warnings []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Default(), nil, &ConfigError{File: path, Problems: []Problem{{What: fmt.Sprintf("read config: %v; name the file with --config FILE", errors.Unwrap(err))}}}
	}
	cfg, r := parseConfig(string(text))
	cfg.file = configFile{path, r.lines}
	if len(r.literals) > 0 {
		if stat, err := os.Stat(path); err == nil && stat.Mode().Perm()&0o004 != 0 {
			r.warn(r.literals[0], "holds a secret in the clear and every user can read the file; chmod 600 it, or use ${NAME} or ${file:/path}")
		}
	}
	for i := range r.warnings {
		r.warnings[i].Line = r.lines.of(r.warnings[i].Key)
	}
	sortByLine(r.warnings)
	for _, p := range r.warnings {
		warnings = append(warnings, cfg.Redact(p.line(path)))
	}
	if len(r.problems) == 0 {
		return cfg, warnings, nil
	}
	return cfg, warnings, r.report(cfg.file, cfg.secrets)
}

// parseConfig reads the text of a configuration over the defaults. The problems
// are in the reader.
func parseConfig(text string) (Config, *configReader) {
	text = strings.TrimPrefix(text, "\ufeff") // some Windows editors begin a file with a byte order mark
	cfg := Default()
	r := &configReader{lines: scanLines(text)}
	text = r.cutRepeated(text)
	var table map[string]any
	if _, err := toml.Decode(text, &table); err != nil {
		r.syntax(err)
		return cfg, r
	}
	r.readConfig(table, &cfg)
	cfg.Kafka.Brokers = splitCommas(cfg.Kafka.Brokers)
	cfg.secrets = newSecrets(append(r.secrets, cfg.harvest()...))
	for _, p := range cfg.problems() {
		if !r.reported(p.Key) {
			r.problems = append(r.problems, p)
		}
	}
	r.warnings = append(r.warnings, cfg.doubts()...)
	return cfg, r
}

// splitCommas takes elements like "a:9092,b:9092" apart: one environment
// variable often carries all brokers.
func splitCommas(list []string) (out []string) {
	for _, element := range list {
		for _, one := range strings.Split(element, ",") {
			out = append(out, strings.TrimSpace(one))
		}
	}
	return out
}

// ConfigError is a configuration that cannot be used. The program exits with 2.
type ConfigError struct {
	File     string // empty for a Config that was made in code
	Problems []Problem
}

// Problem is one thing to change in a configuration.
type Problem struct {
	Line  int    // 0 where no line is to blame
	Key   string // like ingest[0].trigger
	Value string // as written; empty when there is none to show
	What  string // what is wrong, the bound, the remedy
}

// Error returns one line a problem.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.line(e.File)
	}
	return strings.Join(lines, "\n")
}

// line writes FILE:LINE: key = value: what.
func (p Problem) line(file string) string {
	var b strings.Builder
	if file == "" {
		file = "config"
	}
	b.WriteString(file)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key)
		if p.Value != "" {
			b.WriteString(" = " + p.Value)
		}
		b.WriteString(": ")
	}
	b.WriteString(p.What)
	return oneLine.Replace(b.String())
}

// oneLine keeps a problem on its line, whatever the file or a library put into it.
var oneLine = strings.NewReplacer("\n", `\n`, "\r", `\r`)

const (
	valueBytesMax = 80 // of a value in a problem; more is the file's to show
	repeatsMax    = 50 // repeated keys reported; more means the file is not TOML
)

// report gives each problem its line and its value as written, and sorts them
// as the file is read.
func (r *configReader) report(at configFile, hide secrets) error {
	for i := range r.problems {
		p := &r.problems[i]
		at.place(p)
		p.What, p.Value = hide.mask(p.What), hide.mask(p.Value)
	}
	sortByLine(r.problems)
	return &ConfigError{File: at.path, Problems: r.problems}
}

// configFile is where a configuration came from; zero for one made in code.
type configFile struct {
	path  string
	lines tomlLines
}

// place gives a problem its line and its value as the file has it.
func (f configFile) place(p *Problem) {
	if p.Line == 0 {
		p.Line = f.lines.of(p.Key)
	}
	if at, ok := f.lines.places[p.Key]; ok {
		p.Value = shownValue(p.Key, at.value)
		if strings.HasPrefix(p.What, "unknown key") && almostSecret.MatchString(p.Key) && p.Value != "" && !onlyReference.MatchString(p.Value) {
			p.Value = secretMask
		}
	}
}

func sortByLine(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int { return a.Line - b.Line })
}

// shownValue returns what a problem may show of a value: what the file says,
// references unresolved; never a secret, a table, or a list that spans lines.
func shownValue(key, written string) string {
	switch {
	case written == "":
		return ""
	case (isSecretName(key) || secretPlace.MatchString(key) && !plainKey.MatchString(key)) && !onlyReference.MatchString(written):
		return secretMask
	case strings.HasPrefix(written, "{") || strings.Contains(written, "\n"):
		return ""
	case len(written) > valueBytesMax:
		return strings.ToValidUTF8(written[:valueBytesMax], "") + "…"
	}
	return written
}

// secretPlace matches the keys of the sections that are made to hold secrets,
// and plainKey those of them that don't: only these are shown.
var (
	secretPlace = regexp.MustCompile(`^(kafka\.sasl|catalog)(\.|$)`)
	plainKey    = regexp.MustCompile(`^(kafka\.sasl\.(mechanism|username)|catalog\.(name|type|uri|warehouse)|catalog\.properties\.(.*\.)?"?[a-z0-9.-]*(endpoint|uri|region|path-style-access|warehouse|scope)"?)$`)
)

// almostSecret matches what people write when they mean the name of a secret:
// "pasword", "pw", "passphrase", "tokn".
var almostSecret = regexp.MustCompile(`(?i)(pas|pwd|psw|(^|[._-])pw|secr|sec?ret|tok|cred|auth|jaas|login|sig(nature)?$|key)`)

// onlyReference is a value that is one reference and nothing else.
var onlyReference = regexp.MustCompile(`^"\$\{[^}]*\}?"$`)

// cutRepeated reports keys that are given twice and blanks the later ones, so
// that the rest of the file can be judged, too.
func (r *configReader) cutRepeated(text string) string {
	for i, again := range r.lines.repeated {
		if i == repeatsMax {
			break
		}
		what := fmt.Sprintf("given twice, first on line %d; remove one of them", again.first)
		if again.section {
			what = fmt.Sprintf("section [%s] is there twice, first on line %d; merge the two", again.key, again.first)
		}
		r.problems = append(r.problems, Problem{Line: again.line, Key: again.key, What: what})
		cut := []byte(text)
		for j := again.start; j < again.end; j++ {
			if cut[j] != '\n' {
				cut[j] = ' '
			}
		}
		text = string(cut)
	}
	return text
}

// syntax reports where the TOML itself ends to make sense; nothing after that
// line can be judged.
func (r *configReader) syntax(err error) {
	var at toml.ParseError
	if !errors.As(err, &at) {
		r.problems = append(r.problems, Problem{What: "not TOML: " + err.Error()})
		return
	}
	for _, p := range r.problems {
		if p.Line == at.Position.Line {
			return // the scanner has said it better
		}
	}
	what := at.Message
	if isSecretName(at.LastKey) || strings.HasSuffix(at.LastKey, "uri") {
		what = "the value is not TOML" // the message may quote it
	}
	hint := ""
	if strings.Contains(what, "value") {
		hint = `; text goes in quotes: key = "value"`
	}
	r.problems = append(r.problems, Problem{
		Line: at.Position.Line,
		What: "not TOML: " + strings.TrimSuffix(what, ".") + hint,
	})
}

// reported tells whether a problem with key, or with something around or in
// it, is known already.
func (r *configReader) reported(key string) bool {
	about := func(known string) bool {
		return known == key || known != "" && (within(known, key) || within(key, known))
	}
	return slices.ContainsFunc(r.problems, func(p Problem) bool { return about(p.Key) }) || slices.ContainsFunc(r.meant, about)
}

func within(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}
