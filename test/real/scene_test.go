//go:build real

package real_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// scene is several instances of one ingest that share a topic into which
// records come, and the auditor of their table.
type scene struct {
	t        *testing.T
	client   *kgo.Client // straight to the broker
	topic    string
	settings config // of an instance
	load     *load
	auditor  *auditor
}

// newScene makes the topic of a scene in a place; nothing runs yet. No broker named: the shared one.
func newScene(t *testing.T, at place, broker, name string, partitions int32, topicSettings ...string) *scene {
	s := &scene{t: t, client: at.client, topic: makeTopic(t, at.client, name, partitions, topicSettings...)}
	in := auditIngest(name, unique(name)+".records", s.topic)
	in.trigger = "400ms"
	in.extra = []string{`keep_snapshots_for = "0s"`} // expiry is a part of what is tried
	kafka := fmt.Sprintf("[kafka]\nbrokers = [%q]\n", cmp.Or(broker, lab.address("KAFKA_PORT")))
	s.settings = config{kafka: kafka + shortSession, lake: at.lake, ingests: []ingest{in}}
	s.auditor = newAuditor(s.client, at.lake, in)
	return s
}

// shortSession lets the group notice a dead member soon.
const shortSession = "session_timeout = \"2s\"\n"

// begin starts the auditor and the load.
func (s *scene) begin(partitions int32) {
	s.auditor.watch(s.t)
	s.load = startLoad(s.t, s.client, s.topic, partitions)
}

// instance is a router of a scene.
type instance struct {
	*process
	listen, name string
}

// instance starts a router, over another lake if one is given, such as the same behind a wire.
func (s *scene) instance(lakes ...lake) *instance {
	s.t.Helper()
	settings := s.settings
	settings.listen = fmt.Sprint("127.0.0.1:", freePort(s.t))
	for _, l := range lakes {
		settings.lake = l
	}
	return &instance{launch(s.t, "--config", settings.write(s.t)), settings.listen, s.settings.ingests[0].name}
}

// status is what the instance says of itself.
func (i *instance) status() progress { return status(i.t.Context(), i.listen, i.name) }

// up waits until the instance has come up.
func (i *instance) up() *instance {
	i.t.Helper()
	until(i.t, 2*time.Minute, "an instance running", func() bool { return i.status().State == "running" })
	return i
}

// freeze holds the process as a machine that swaps, or a paused container, does; thaw lets it go on.
func (p *process) freeze() { p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) thaw()   { p.cmd.Process.Signal(syscall.SIGCONT) }

// alive fails the test when an instance has ended by itself.
func (s *scene) alive(instances ...*instance) {
	s.t.Helper()
	for n, i := range instances {
		if !i.running() {
			s.t.Fatalf("instance %d ended by itself with code %d", n+1, i.exit.code)
		}
	}
}

// catchUp waits until all that is in the topic now is in the table, and returns how long that took.
func (s *scene) catchUp(limit time.Duration) time.Duration {
	s.t.Helper()
	began := time.Now()
	to := ends(s.t, s.client, s.topic)
	until(s.t, limit, fmt.Sprintf("the ledger at %v", to), func() bool { return s.auditor.passed(s.topic, to) })
	return time.Since(began)
}

// leave asks instances to stop, which they must do well.
func (s *scene) leave(instances ...*instance) {
	s.t.Helper()
	s.stop(s.t.Errorf, instances)
}

// quit ends instances that may still meet a connection that is half open: they
// may say so with their exit code. What they had not committed is read again.
func (s *scene) quit(instances ...*instance) {
	s.t.Helper()
	s.stop(s.t.Logf, instances)
}

// stop asks instances to stop, waits for them, and tells of exit codes other than 0.
func (s *scene) stop(tell func(string, ...any), instances []*instance) {
	s.t.Helper()
	for _, i := range instances {
		i.term()
	}
	for n, i := range instances {
		if e := i.wait(90 * time.Second); e.code != 0 {
			tell("instance %d, asked to stop, ended with code %d", n+1, e.code)
		}
	}
}

// finish lets a last router read the topic to its end and audits all. REQUIRES: no instance runs.
func (s *scene) finish() {
	s.t.Helper()
	produced := s.load.stop(s.t)
	settings := s.settings
	settings.sections = nil // what is published is looked at after the table
	mustOnce(s.t, settings.write(s.t))
	s.t.Logf("%d records", produced)
	s.auditor.finish(s.t, s.topic, s.load.truth, s.load.truth)
}

// pause waits, unless the test ends before.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// between returns a time by chance.
func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64(high-low)))
}

// dice returns random numbers whose seed is in the test's log.
func dice(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// size is how large a test is to be: an environment variable says it, or the test itself.
func size(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s = %q: a number of at least 1 is needed", variable, text)
	}
	return n
}

// logged returns how often a router has said something in its log.
func (e exit) logged(words ...string) (n int) {
	for line := range strings.Lines(e.output) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// commitTimes returns how long the commits took that a router has logged, in order.
func (e exit) commitTimes() (times []time.Duration) {
	for line := range strings.Lines(e.output) {
		var l struct {
			Msg  string
			Took float64
		}
		if strings.Contains(line, `"committed"`) && json.Unmarshal([]byte(line), &l) == nil && l.Msg == "committed" {
			times = append(times, time.Duration(l.Took*float64(time.Second)))
		}
	}
	return times
}

// quantile returns the value below which that share of times lies.
func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
