// Command router moves records from Apache Kafka into Apache Iceberg tables,
// exactly once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/router"
)

// version is stamped by the linker: -ldflags "-X main.version=v1.2.3".
var version = ""

// Exit codes, a contract with scripts and service managers.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // the command line or the configuration is wrong: starting again will not help
)

func main() {
	p := &program{stdout: os.Stdout, stderr: os.Stderr}
	var release func()
	p.ctx, p.hard, release = stopSignals(os.Stderr)
	code := p.run(os.Args[1:])
	release()
	os.Exit(code)
}

// program is one call of the command.
type program struct {
	stdout, stderr io.Writer
	ctx            context.Context // ends at the first stop signal: drain
	hard           context.Context // ends at the second: let go
}

// run carries out the command line and returns the exit code.
func (p *program) run(args []string) int {
	err := p.dispatch(args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	prefix := "router: "
	var usage *router.UsageError
	var config *router.ConfigError
	code := exitFailed
	switch {
	case errors.As(err, &config):
		prefix, code = "", exitUsage // its lines begin with the file
	case errors.As(err, &usage):
		code = exitUsage
	}
	fmt.Fprintln(p.stderr, prefix+err.Error())
	return code
}

// dispatch finds the command: the first argument that is no flag.
func (p *program) dispatch(args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if len(args) > 0 && (args[0] == "--version" || args[0] == "-version") {
			return p.version(nil)
		}
		return p.daemon(args)
	}
	switch name, rest := args[0], args[1:]; name {
	case "check":
		return p.check(rest)
	case "demo":
		return router.DemoCommand(p.ctx, rest)
	case "generate":
		return router.GenerateCommand(p.ctx, rest)
	case "version":
		return p.version(rest)
	case "help":
		return p.help(rest)
	case "audit":
		return p.audit(rest)
	case "maintain":
		if asksHelp(rest) {
			fmt.Fprint(p.stdout, usages[name])
			return nil
		}
		return usageError("%s is planned and not built yet; this version has: audit, check, demo, generate, version", name)
	default:
		return usageError("unknown command %q; commands are audit, check, demo, generate, version; `router --help` says more", name)
	}
}

// daemon runs the configured ingests until a stop signal or, with --once,
// until the ends of the topics.
func (p *program) daemon(args []string) error {
	var file string
	var once bool
	err := p.flags("", args, func(f *flag.FlagSet) {
		f.StringVar(&file, "config", defaultConfig, "")
		f.BoolVar(&once, "once", false, "")
	})
	if err != nil {
		return err
	}
	cfg, log, err := p.load(file)
	if err != nil {
		return err
	}
	defer log.Sync() //nolint:errcheck // a terminal cannot be synced
	r, err := router.New(cfg, log, router.Options{Once: once, Version: versionText()})
	if err != nil {
		return redacted(cfg, err)
	}
	defer context.AfterFunc(p.ctx, func() {
		log.Info("stopping: committing what is open; a second signal lets go at once")
	})()

	announce, finished := context.WithCancel(p.ctx)
	var g errgroup.Group
	g.Go(func() error { router.Announce(announce, r.Status, log); return nil })
	err = r.Run(p.ctx, p.hard)
	finished()
	_ = g.Wait()
	return redacted(cfg, err)
}

// check reads the configuration and asks everything it names.
func (p *program) check(args []string) error {
	var file string
	err := p.flags("check", args, func(f *flag.FlagSet) { f.StringVar(&file, "config", defaultConfig, "") })
	if err != nil {
		return err
	}
	cfg, warnings, err := router.Load(file)
	for _, w := range warnings {
		fmt.Fprintln(p.stdout, "warning:", w)
	}
	if err != nil {
		return err
	}
	return redacted(cfg, router.Check(p.ctx, cfg, p.stdout))
}

// audit proves from the tables what was committed.
func (p *program) audit(args []string) error {
	var file string
	var o router.AuditOptions
	names, err := p.flagsAndNames("audit", args, func(f *flag.FlagSet) {
		f.StringVar(&file, "config", defaultConfig, "")
		f.BoolVar(&o.Footers, "footers", false, "")
	})
	if err != nil {
		return err
	}
	cfg, warnings, err := router.Load(file)
	for _, w := range warnings {
		fmt.Fprintln(p.stderr, "warning:", w)
	}
	if err != nil {
		return err
	}
	o.Ingests = names
	return redacted(cfg, router.Audit(p.ctx, cfg, o, p.stdout))
}

// load reads the configuration and makes the log that it asks for. Whatever
// libraries write to Go's own loggers goes there, too, masked.
func (p *program) load(file string) (router.Config, *zap.Logger, error) {
	cfg, warnings, err := router.Load(file)
	if err != nil {
		for _, w := range warnings {
			fmt.Fprintln(p.stderr, "warning:", w)
		}
		return cfg, nil, err
	}
	log, err := router.NewLog(cfg, p.stderr)
	if err != nil {
		return cfg, nil, err
	}
	zap.RedirectStdLog(log.Named("library"))
	for _, w := range warnings {
		log.Warn(w)
	}
	return cfg, log, nil
}

func (p *program) version(args []string) error {
	if err := p.flags("version", args, func(*flag.FlagSet) {}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.stdout, "router %s (%s %s/%s)\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// versionText is the stamped version, or what Go knows of the build.
func versionText() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" && b.Main.Version != "(devel)" {
		return b.Main.Version
	}
	return "devel"
}

// redacted keeps the error's kind and hides the secrets in its text.
func redacted(cfg router.Config, err error) error {
	if err == nil {
		return nil
	}
	return &redactedError{text: cfg.Redact(err.Error()), err: err}
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }

// stopSignals returns a context that ends with the first SIGINT or SIGTERM and
// one that ends with the second. After that the signals kill again.
func stopSignals(stderr io.Writer) (ctx, hard context.Context, release func()) {
	ctx, drain := context.WithCancel(context.Background())
	hard, cut := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var g errgroup.Group
	end := make(chan struct{})
	g.Go(func() error {
		for n := 0; n < 2; n++ {
			select {
			case <-signals:
				if n == 0 {
					drain()
					continue
				}
				fmt.Fprintln(stderr, "router: second signal: letting go; nothing is lost, the next start resumes from the table")
				cut()
				signal.Stop(signals)
			case <-end:
				return nil
			}
		}
		return nil
	})
	return ctx, hard, func() {
		signal.Stop(signals)
		close(end)
		_ = g.Wait()
		drain()
		cut()
	}
}
