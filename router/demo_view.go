package router

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// demoView shows how the demo is getting on: a block that is redrawn in place
// on a terminal, a line a second elsewhere.
type demoView struct {
	demo     *demo
	terminal bool
	began    time.Time
	draining atomic.Bool
	drawn    int           // lines of the block on the screen
	past     []demoReading // of the last speedWindow, oldest first
}

// demoReading is what the counters said at a time.
type demoReading struct {
	at             time.Time
	records, bytes int64 // produced
	status         IngestStatus
	back           PublishStatus
}

const (
	redrawEvery = 200 * time.Millisecond
	speedWindow = 3 * time.Second // speeds are means over this: commits come in steps of a trigger
)

func newDemoView(d *demo) *demoView {
	v := &demoView{demo: d, terminal: isTerminal(d.out), began: time.Now()}
	v.past = []demoReading{{at: v.began}}
	return v
}

// isTerminal reports whether f shows text to a person and understands cursor
// movements.
func isTerminal(f *os.File) bool {
	s, err := f.Stat()
	return err == nil && s.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}

// drains says that the load has ended and the rest is being committed.
func (v *demoView) drains() { v.draining.Store(true) }

// show draws until ctx ends, and once more then.
func (v *demoView) show(ctx context.Context) {
	fmt.Fprint(v.demo.out, v.hello())
	every := time.Second
	if v.terminal {
		every = redrawEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			v.draw(v.read(time.Now()))
			return
		case now := <-tick.C:
			v.draw(v.read(now))
		}
	}
}

// hello says where everything is.
func (v *demoView) hello() string {
	d := v.demo
	var b strings.Builder
	fmt.Fprintf(&b, "router demo: Kafka → Iceberg → Kafka, exactly once, all of it in this process\n\n")
	fmt.Fprintf(&b, "  page       http://%s/\n", d.config.HTTP.Listen)
	fmt.Fprintf(&b, "  kafka      %s, topic %s, %d partitions\n", d.config.Kafka.Brokers[0], demoTopic, d.options.partitions)
	fmt.Fprintf(&b, "  table      %s, bucket(logStreamId, 64), a cut every %s\n", demoTable, d.options.trigger)
	fmt.Fprintf(&b, "  back       topic %s, in transactions\n", demoBack)
	fmt.Fprintf(&b, "  folder     %s, with the router's log in router.log\n", d.options.dir)
	if d.before > 0 {
		fmt.Fprintf(&b, "  before     %s records of earlier runs, %s of them in the table\n", grouped(d.before), grouped(d.landed))
	}
	b.WriteString("\n")
	return b.String()
}

func (v *demoView) read(now time.Time) demoReading {
	d := v.demo
	return demoReading{at: now, records: d.load.acked.Load(), bytes: d.load.bytes.Load(), status: d.status(), back: d.back()}
}

// draw shows r.
func (v *demoView) draw(r demoReading) {
	for len(v.past) > 1 && r.at.Sub(v.past[0].at) > speedWindow {
		v.past = v.past[1:]
	}
	from := v.past[0]
	v.past = append(v.past, r)
	if !v.terminal {
		fmt.Fprintln(v.demo.out, v.line(from, r))
		return
	}
	// Without the terminal's line wrap, so that a narrow one doesn't break the count of lines.
	var b strings.Builder
	b.WriteString("\x1b[?7l")
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	lines := v.block(from, r)
	for _, line := range lines {
		b.WriteString("\x1b[2K" + line + "\n")
	}
	b.WriteString("\x1b[?7h")
	v.drawn = len(lines)
	_, _ = v.demo.out.WriteString(b.String())
}

// line is r for a log.
func (v *demoView) line(from, r demoReading) string {
	s := r.status
	text := fmt.Sprintf("%4.0fs  produced %s (%s/s)  committed %s (%s/s)  lag %s  commits %d  files %s  freshness p50 %s p95 %s p99 %s  back %s",
		r.at.Sub(v.began).Seconds(), grouped(r.records), speed(from, r, from.records, r.records),
		grouped(s.Rows), speed(from, r, from.status.Rows, s.Rows), grouped(v.lag(r)), s.Commits, grouped(s.Files),
		secondsText(s.Freshness.P50), secondsText(s.Freshness.P95), secondsText(s.Freshness.P99), grouped(r.back.Rows))
	if v.draining.Load() {
		text += "  draining"
	}
	if t := trouble(s); t != "" {
		text += "  " + t
	}
	return text
}

// block is r for a terminal.
func (v *demoView) block(from, r demoReading) []string {
	s, elapsed := r.status, r.at.Sub(v.began)
	phase := "Ctrl-C ends the load and proves the table"
	if limit := v.demo.options.limit; limit > 0 {
		phase = fmt.Sprintf("%.0f s to go", max(0, (limit-elapsed).Seconds()))
	}
	if v.draining.Load() {
		phase = "the load has ended; committing the rest"
	}
	mb := float64(r.bytes-from.bytes) / 1e6 / r.at.Sub(from.at).Seconds()
	return []string{
		fmt.Sprintf("  elapsed    %12.0f s        %s", elapsed.Seconds(), phase),
		fmt.Sprintf("  produced   %12s records  %9s/s  %.1f MB/s", grouped(r.records), speed(from, r, from.records, r.records), mb),
		fmt.Sprintf("  committed  %12s rows     %9s/s  %s commits, %s files, %s", grouped(s.Rows),
			speed(from, r, from.status.Rows, s.Rows), grouped(s.Commits), grouped(s.Files), megabytes(s.FileBytes)),
		fmt.Sprintf("  lag        %12s records", grouped(v.lag(r))),
		fmt.Sprintf("  freshness  %12s p50      %9s p95  %s p99, from produced to readable",
			secondsText(s.Freshness.P50), secondsText(s.Freshness.P95), secondsText(s.Freshness.P99)),
		fmt.Sprintf("  back       %12s records  %9s/s  %s transactions, %s p50 after the commit", grouped(r.back.Rows),
			speed(from, r, from.back.Rows, r.back.Rows), grouped(r.back.Transactions), secondsText(r.back.Freshness.P50)),
		"  " + trouble(s),
	}
}

// lag counts the records that are produced and not in the table.
func (v *demoView) lag(r demoReading) int64 {
	return max(v.demo.before+r.records-v.demo.landed-r.status.Rows, 0)
}

// speed is the mean between two readings.
func speed(from, to demoReading, a, b int64) string {
	return grouped(int64(float64(b-a) / max(to.at.Sub(from.at).Seconds(), 0.001)))
}

// trouble tells what is not going well, if anything.
func trouble(s IngestStatus) string {
	switch {
	case s.Error != "":
		return s.State + ": " + s.Error
	case s.State == StateStarting:
		return s.State
	}
	return ""
}

// secondsText writes a duration in seconds, or a dash before there is one.
func secondsText(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
