package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzConfig reads anything as a configuration. It never panics; every problem
// is a line of the report and names a line that the file has, always where a
// key of the file is to blame; and a file without problems is a valid Config.
func FuzzConfig(f *testing.F) {
	scenes, err := filepath.Glob("testdata/config/*.txt")
	if err != nil || len(scenes) == 0 {
		f.Fatalf("%d scenes, %v", len(scenes), err)
	}
	for _, name := range append(scenes, "../config.example.toml") {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(minimal)
	f.Add("[catalog.properties]\n\"a.b\" = 1\n[[ingest]]\nname = \"\\u0000\"\n[ingest]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "${") {
			return // the environment and files are no part of the text
		}
		cfg, r := parseConfig(text)
		if len(r.problems) == 0 {
			if err := cfg.Validate(); err != nil {
				t.Fatalf("no problem was found, and: %v", err)
			}
			return
		}
		report := r.report(configFile{"x.toml", r.lines}, cfg.secrets)
		lines := strings.Count(text, "\n") + 1
		for _, p := range r.problems {
			if p.Line < 0 || p.Line > lines {
				t.Errorf("%+v names line %d of %d", p, p.Line, lines)
			}
			if p.Line == 0 && strings.HasPrefix(p.What, "unknown key") {
				t.Errorf("%+v names no line", p)
			}
			if p.What == "" {
				t.Errorf("%+v says nothing", p)
			}
		}
		for _, line := range strings.Split(report.Error(), "\n") {
			if !strings.HasPrefix(line, "x.toml") {
				t.Errorf("line %q of the report is no problem's", line)
			}
		}
	})
}

// FuzzOrigins reads anything as what a data file says of its rows: an error, or
// spans that an audit can add up.
func FuzzOrigins(f *testing.F) {
	f.Add(`{"ingest":"orders","file":"f00","cut":"c1","cluster":"c","topics":{"a":{"id":"i","offsets":[[1,1,2,2],[3,10,41,8]]},"b":{"offsets":[[0,7,7,1]]}}}`)
	f.Add(`{"topics":{"a":{"offsets":[[2147483647,9223372036854775807,9223372036854775807,1]]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		j, err := decodeOrigins(text)
		if err != nil {
			return
		}
		for topic, spans := range j.Topics {
			for _, s := range spans.Offsets {
				if p := s[0]; int64(int32(p)) != p || s[1] < 0 || s[2] < s[1] || s[3] <= 0 {
					t.Errorf("%s: %v", topic, s)
				}
			}
		}
	})
}
