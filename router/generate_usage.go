package router

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// generateUsage is what `router generate --help` says above its flags.
func generateUsage() string {
	return `router generate fills a Kafka topic with generated records, at a rate.

  router generate --topic logs --create --partitions 8 --rate 50MB --for 1m
  router generate --topic orders --schema '{"id": "{{sequence}}", "at": "{{now}}"}' --key '{{field(id)}}' --count 1000

A schema is a JSON object; its texts may hold templates, at any depth:

` + functionTable() + `
A text that is one template of a number or boolean and nothing else becomes a JSON
number or boolean; every other text stays a text.
`
}

// functionTable lists the functions with what they make.
func functionTable() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		fmt.Fprintf(&b, "  %-29s %s\n", f.form, f.about)
	}
	return b.String()
}

// parseFlags parses args. Asked for help it prints usage and the flags and
// returns flag.ErrHelp; a mistake comes back as an error alone.
func parseFlags(f *flag.FlagSet, args []string, out io.Writer, usage string) error {
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, usage, "\nFlags:\n\n")
		f.VisitAll(func(f *flag.Flag) {
			value, about := flag.UnquoteUsage(f)
			if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "false" && len(f.DefValue) < 30 {
				about += "; default " + f.DefValue
			}
			fmt.Fprintf(out, "  %-29s %s\n", strings.TrimRight("--"+f.Name+" "+value, " "), about)
		})
		return err
	}
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("argument %q is not understood; flags are written --name value", f.Arg(0))
	}
	if err != nil {
		return fmt.Errorf("%w; see router %s --help", err, f.Name())
	}
	return nil
}

// grouped writes n with commas between the thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := len(strings.TrimPrefix(s, "-"))
	for at := len(s) - 3; digits > 3; at, digits = at-3, digits-3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

// megabytes writes a size for people.
func megabytes(bytes int64) string {
	if bytes < 10e9 {
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
}
