package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"icerouter/router"
)

// defaultConfig is read where --config names no other file.
const defaultConfig = "router.toml"

// usages is what --help says, by command.
var usages = map[string]string{
	"": `router moves records from Kafka topics into Iceberg tables, exactly once.

Usage:
  router [--config FILE] [--once]   run until stopped; --once: to the current ends of the topics, then exit
  router check [--config FILE]      look at the config, brokers, topics, catalog, store and tables: every problem at once
  router audit [INGEST...]          prove from the tables that every record is there just once
  router demo                       everything embedded, with generated input and a proof at the end
  router generate                   fill a topic with generated records at a rate
  router version                    say which version this is
  router help COMMAND               the same as router COMMAND --help

Flags:
  --config FILE   the configuration; default router.toml. config.example.toml explains every key
  --once          commit everything up to the ends of the topics as of now, then exit

The first SIGTERM or SIGINT commits what is open and exits, within stop_timeout; a second one lets go at once.
Exit codes: 0 done, 1 failed, 2 wrong command line or configuration.

Examples:
  router demo --for 20s
  router check --config /etc/router/router.toml
  router --config /etc/router/router.toml
  router --config backfill.toml --once
`,
	"check": `router check looks at everything the configuration names and reports every problem at once:
the file, the brokers and the login, topics and dead-letter topics, the catalog, the tables
against the configuration, and whether the store can be written, read and deleted from.
It creates no table and reads no record; it writes one small object per store and deletes it.

Usage:
  router check [--config FILE]

Flags:
  --config FILE   the configuration; default router.toml

Exit codes: 0 all well, 1 something the configuration names is not as it must be, 2 the configuration itself is wrong.

Examples:
  router check
  router check --config /etc/router/router.toml && systemctl restart router
`,
	"version": `router version says which version this is.

Usage:
  router version
`,
	"audit": `router audit proves from the tables alone that every partition's offsets are gapless and single:
each record up to the ledger's next offset became a row that is there once, or is accounted for as left out,
or never was one (control records, compaction). It asks three witnesses: the ledger's books, the footers
of the data files, and, where the table has the columns _kafka_partition and _kafka_offset, every row.
Every gap and every duplicate is named. Nothing is changed, and Kafka is not asked.

Usage:
  router audit [--config FILE] [--footers] [INGEST...]

Flags:
  --config FILE   the configuration; default router.toml
  --footers       ask the footers alone: two small reads a data file, instead of three columns of all rows

INGEST names an ingest of the configuration; without one all are audited.

Exit codes: 0 proven, 1 not (each reason is named) or not readable, 2 wrong command line or configuration.

Examples:
  router audit
  router audit --config /etc/router/router.toml orders
`,
	"maintain": `router maintain will merge small files and expire snapshots by hand.
It is planned and not built yet.
`,
}

// flags reads the flags of a command. Asked for help it prints the command's
// usage and returns flag.ErrHelp.
func (p *program) flags(name string, args []string, declare func(*flag.FlagSet)) error {
	names, err := p.flagsAndNames(name, args, declare)
	if err == nil && len(names) > 0 {
		help := "router --help"
		if name != "" {
			help = "router " + name + " --help"
		}
		return usageError("argument %q is not understood; see %s", names[0], help)
	}
	return err
}

// flagsAndNames is flags for a command that takes names, too, before, after or
// between its flags.
func (p *program) flagsAndNames(name string, args []string, declare func(*flag.FlagSet)) (names []string, err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	declare(f)
	for rest := args; ; rest = rest[1:] {
		if err = f.Parse(rest); err != nil {
			break
		}
		if rest = f.Args(); len(rest) == 0 {
			break
		}
		names = append(names, rest[0])
	}
	help := "router --help"
	if name != "" {
		help = "router " + name + " --help"
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(p.stdout, usages[name])
		return nil, err
	case err != nil:
		return nil, usageError("%v; see %s", err, help)
	}
	return names, nil
}

// help prints the usage of a command.
func (p *program) help(args []string) error {
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "demo":
		return router.DemoCommand(p.ctx, []string{"--help"})
	case "generate":
		return router.GenerateCommand(p.ctx, []string{"--help"})
	}
	text, ok := usages[args[0]]
	if !ok {
		return usageError("unknown command %q; see router --help", args[0])
	}
	_, err := fmt.Fprint(p.stdout, text)
	return err
}

func asksHelp(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "--help" || a == "-help" || a == "-h" })
}

func usageError(format string, args ...any) error {
	return &router.UsageError{Err: fmt.Errorf(format, args...)}
}
