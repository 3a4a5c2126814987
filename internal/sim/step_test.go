//go:build synctests

package sim

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"icerouter/router"
)

// patience is how long a world without faults may take until all is in the
// table. It is far more than anything there waits for.
const patience = 90 * time.Second

// play runs a scene, and at its end a run to the ends of the topics. It
// returns what is wrong, if anything.
func (w *world) play(scene []string) []string {
	for _, line := range scene {
		var n int
		if _, err := fmt.Sscanf(line, "halts %d", &n); err == nil {
			w.halting[n] = true
		}
	}
	for n, line := range scene {
		if line == "" || line[0] == '#' {
			continue
		}
		w.log.printf("STEP %d: %s", n+1, line)
		shown, err := w.do(strings.Fields(line))
		if shown != "" {
			w.shown[n] = shown
		}
		if err != nil {
			w.audit.violation("step %d, %s: %v", n+1, line, err)
		}
		w.look()
		w.inspect(fmt.Sprintf("step %d, %s", n+1, line))
		w.back.look(fmt.Sprintf("step %d, %s", n+1, line))
		if found := w.audit.found(); len(found) > 0 {
			return found
		}
	}
	if len(w.halting) > 0 {
		return w.audit.found() // a run to the ends would halt too
	}
	w.log.printf("STEP last")
	w.mend()
	for n := range instancesMax {
		if w.rand.IntN(2) == 0 {
			w.kill(n + 1)
		} else if err := w.stop(n + 1); err != nil {
			w.audit.violation("at the end: stop %d: %v", n+1, err)
		}
	}
	if err := w.once(); err != nil {
		w.audit.violation("at the end: a run to the ends: %v", err)
	}
	if behind := w.behind(); behind != "" {
		w.audit.violation("at the end: %s", behind)
	}
	if w.audit.rolledBack() {
		w.audit.violation("at the end: the table was rolled back, and what was taken is not in it again")
	}
	w.inspect("at the end")
	w.examine()
	w.back.finish()
	w.back.look("at the end")
	return w.audit.found()
}

// do does one step, and returns what it shows.
func (w *world) do(words []string) (shown string, err error) {
	switch words[0] {
	case "show":
		return w.show() + w.back.show(), nil
	case "audit":
		p, err := w.prove(w.audited)
		return appendNumber.ReplaceAllString(w.plain(p.text), "append <n>"), err
	case "halts":
		n, err := strconv.Atoi(words[1])
		if err != nil || w.instances[n] == nil {
			return "", fmt.Errorf("no instance %q", words[1])
		}
		return w.halts(n)
	}
	return "", w.act(words)
}

// act does a step that shows nothing.
func (w *world) act(words []string) error {
	number := func(i int) int {
		if i >= len(words) {
			return 0
		}
		n, err := strconv.Atoi(words[i])
		if err != nil {
			panic(fmt.Sprintf("step %q: word %d is no number", words, i))
		}
		return n
	}
	switch words[0] {
	case "produce":
		return w.produce(words[1], number(2))
	case "begin":
		return w.begin(words[1], number(2))
	case "end":
		return w.endTransaction(words[1] == "commit")
	case "start":
		return w.run(number(1), ourGroup)
	case "double":
		return w.run(number(1), "group of "+words[1])
	case "stop":
		return w.stop(number(1))
	case "kill":
		w.kill(number(1))
	case "pause", "resume":
		if i := w.instances[number(1)]; i != nil {
			map[string]func(){"pause": i.gate.pause, "resume": i.gate.resume}[words[0]]()
		}
	case "kafka", "catalog", "store":
		if words[1] == "sql" {
			return w.useSQL()
		}
		if i := w.instances[number(1)]; i != nil {
			i.gate.add(fault{place: words[0], call: words[2], what: words[3], left: number(4), wait: time.Duration(number(5)) * time.Millisecond})
		}
	case "refuse":
		w.refuse(words[1], number(2), number(3))
	case "evict":
		if i := w.instances[number(1)]; i != nil {
			w.evict(i.name)
		}
	case "clock":
		if words[1] == "store" {
			w.objects.setClock(time.Duration(number(2)) * time.Second)
			break
		}
		if i := w.instances[number(1)]; i != nil {
			i.gate.step(time.Duration(number(2)) * time.Second)
		}
	case "policy":
		w.policy = words[1]
		in := &w.cfg.Ingest[0]
		in.OnLostRecords = map[string]string{"halt": "halt", "mend": "continue"}[words[1]]
		in.OnTopicReset = map[string]string{"halt": "halt", "mend": "restart"}[words[1]]
		in.OnRollback = map[string]string{"halt": "halt", "mend": "reread"}[words[1]]
		w.back.policy(words[1] == "mend")
	case "publish", "shards":
		w.back.shards(number(1))
	case "overtake":
		return w.overtake(words[1])
	case "recreate":
		return w.recreate(words[1], int32(number(2)))
	case "from":
		w.cfg.Ingest[0].Start, w.audit.latest = words[1], words[1] == "latest"
	case "skip":
		w.cfg.Ingest[0].OnBadRecord, w.cfg.Ingest[0].DeadLetterTopic = "skip", ""
	case "once":
		return w.runOnce(number(1))
	case "flood":
		return w.flood(words[1], number(2))
	case "replace":
		return w.lake.replace()
	case "append", "property", "column", "drop", "spec", "expire", "rewrite", "delete", "rollback", "tag", "untag":
		w.foreign(words[0], number(1))
	case "grow":
		_, err := w.admin.CreatePartitions(w.ctx, 1, words[1])
		w.back.grown(words[1])
		return err
	case "trim":
		return w.trim(words[1])
	case "leaders":
		for _, topic := range w.back.topics() {
			for _, p := range w.broker.PartitionInfos(topic) {
				if err := w.broker.MoveTopicPartition(topic, p.Partition, w.rand.Int32N(brokers)); err != nil {
					return err
				}
			}
		}
	case "coordinators":
		w.broker.RehashCoordinators()
	case "compact":
		w.broker.Compact()
	case "wait":
		w.wait(time.Duration(number(1)) * time.Millisecond)
	case "settle":
		return w.settle()
	default:
		panic(fmt.Sprintf("step %q: no such word", words))
	}
	return nil
}

// records makes n records a partition of topic.
func (w *world) records(topic string, n int, k kind) (out []*kgo.Record, notes []*record) {
	for _, p := range w.broker.PartitionInfos(topic) {
		for range w.rand.IntN(n + 1) {
			kind := k
			if x := w.rand.IntN(100); k == good && x < 3 {
				kind = bad
			} else if k == good && x < 6 {
				kind = null
			}
			r := w.truth.add(kind, topic, p.Partition)
			out, notes = append(out, w.record(r)), append(notes, r)
		}
	}
	return out, notes
}

func (w *world) produce(topic string, n int) error {
	records, notes := w.records(topic, n, good)
	client, err := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner())) // knows the partitions of now
	if err != nil {
		return err
	}
	defer client.Close()
	if _, _, err := client.ProducerID(w.ctx); err != nil { // before there are senders that wait for it
		return err
	}
	return w.send(client, records, notes)
}

func (w *world) send(client *kgo.Client, records []*kgo.Record, notes []*record) error {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	for i, r := range records {
		client.Produce(ctx, r, func(r *kgo.Record, err error) {
			if err != nil {
				w.audit.violation("produce: %v", err)
				return
			}
			w.truth.acknowledged(notes[i], r.Offset)
		})
	}
	return client.Flush(ctx)
}

// transaction is one that is open.
type transaction struct {
	client *kgo.Client
	notes  []*record
}

func (w *world) begin(topic string, n int) error {
	client, err := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("world"), kgo.TransactionTimeout(5*time.Minute))
	if err != nil {
		return err
	}
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if _, _, err := client.ProducerID(w.ctx); err != nil {
		return err
	}
	records, notes := w.records(topic, n, pending)
	w.txn = &transaction{client, notes}
	return w.send(client, records, notes)
}

func (w *world) endTransaction(commit bool) error {
	if w.txn == nil {
		return nil
	}
	defer func() {
		w.txn.client.Close()
		w.txn = nil
	}()
	k := aborted
	if commit {
		k = good
	}
	w.truth.become(w.txn.notes, k)
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	return w.txn.client.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// ourGroup is the group of the instances. One that is started by mistake in a
// group of its own reads every partition beside its owner.
const ourGroup = "ours"

func (w *world) run(n int, group string) error {
	if w.instances[n] != nil {
		return nil
	}
	i, err := w.start(n, group, false)
	if err != nil {
		return err
	}
	w.instances[n] = i
	return nil
}

func (w *world) kill(n int) {
	i := w.instances[n]
	if i == nil {
		return
	}
	delete(w.instances, n)
	i.die()
}

// stopPatience is longer than stop_timeout and what a client needs to close.
const stopPatience = 40 * time.Second

func (w *world) stop(n int) error {
	i := w.instances[n]
	if i == nil {
		return nil
	}
	delete(w.instances, n)
	i.gate.resume()
	i.stop()
	select {
	case <-i.done: // with an error, if faults held up the last commit
		return nil
	case <-time.After(stopPatience):
		return errors.New("it does not end")
	}
}

// buryEvery is how often the world takes silent members out of the group while it waits.
const buryEvery = 500 * time.Millisecond

// wait lets time pass.
func (w *world) wait(d time.Duration) {
	for until := time.Now().Add(d); ; w.bury() {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, buryEvery))
	}
}

// bury takes silent members, dead or paused, out of the group once their session
// is over, as Kafka does. This broker never misses a member that falls silent
// between its join and its sync, and its partitions would be nobody's.
func (w *world) bury() {
	w.putOut(func(name string) bool {
		g := w.gate(name)
		return g != nil && g.silentFor() >= w.cfg.Kafka.SessionTimeout
	})
}

// evict takes a living member out of the group: its partitions move away, and
// it does not know yet.
func (w *world) evict(name string) {
	w.putOut(func(member string) bool { return member == name })
}

func (w *world) putOut(which func(name string) bool) {
	w.putOutOf(ourGroup, which)
	if w.back != nil {
		w.putOutOf(w.back.group(), which)
	}
	for n := range instancesMax {
		w.putOutOf(fmt.Sprintf("group of %d", n+1), which)
	}
}

func (w *world) putOutOf(name string, which func(name string) bool) {
	group := w.broker.GroupInfo(name)
	if group == nil {
		return
	}
	for _, m := range group.Members {
		if !which(m.ClientID) {
			continue
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = name, m.MemberID
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		_, err := leave.RequestWith(ctx, w.client)
		cancel()
		w.log.printf("%s was put out of the group: %v", m.ClientID, err)
	}
}

// look sees whether an instance has ended by itself.
func (w *world) look() {
	w.bury()
	for n, i := range w.instances {
		for _, s := range i.router.Status().Ingests {
			if s.State == router.StateHalted && !w.halting[n] {
				w.audit.violation("%s waits for a person: %s", i.name, s.Error)
			}
		}
		w.claims(i)
		for _, s := range i.router.Status().Publishes {
			if s.State == router.StateHalted && !w.halting[n] {
				w.audit.violation("%s waits for a person: %s", i.name, s.Error)
			}
		}
		if w.halting[n] {
			continue
		}
		if w.back.stuck(i) {
			w.log.printf("%s is not ready, and is started again", i.name)
			i.die()
		}
		select {
		case err := <-i.done:
			if i.ends != nil {
				delete(w.instances, n)
				w.hasEnded(i, err)
				continue
			}
			w.log.printf("%s ended by itself, and is started again: %v", i.name, err)
			delete(w.instances, n)
			if err := w.run(n, i.group); err != nil {
				w.audit.violation("start %d again: %v", n, err)
			}
		default:
		}
	}
}

// calls are the Kafka requests that refuse speaks of.
var calls = map[string]kmsg.Key{
	"heartbeat": kmsg.Heartbeat, "join": kmsg.JoinGroup, "sync": kmsg.SyncGroup, "commit": kmsg.OffsetCommit, "committed": kmsg.OffsetFetch,
	"fetch": kmsg.Fetch, "produce": kmsg.Produce, "offsets": kmsg.ListOffsets, "metadata": kmsg.Metadata, "coordinator": kmsg.FindCoordinator,
}

// refuse lets the broker answer the next requests with an error.
func (w *world) refuse(call string, code, n int) {
	if w.back.refuse(call, code, n) {
		return
	}
	f := kfake.Fault{Keys: []kmsg.Key{calls[call]}, Err: kerr.TypedErrorForCode(int16(code)), Count: n}
	switch call {
	case "heartbeat", "join", "sync", "commit", "committed", "coordinator":
		f.Group = ourGroup
	case "produce":
		f.Topic = deadTopic
	default:
		f.Topic = topics[w.rand.IntN(len(topics))]
	}
	w.faults = append(w.faults, w.broker.Fault(f))
}

func (w *world) foreign(what string, n int) {
	act := map[string]func() error{
		"append": func() error { return w.foreignAppend(n) }, "property": w.foreignProperty, "column": w.foreignColumn,
		"expire": w.foreignExpire, "rewrite": w.foreignRewrite, "delete": w.foreignDelete, "rollback": w.foreignRollback,
		"drop": w.foreignDrop, "spec": w.foreignSpec, "tag": w.foreignTag, "untag": w.foreignUntag,
	}[what]
	if meta := w.lake.current(); meta == nil || meta.CurrentSnapshot() == nil {
		return // nobody has made the table yet
	}
	if err := act(); err != nil {
		w.log.printf("%s: %v", what, err)
	}
}

// trim deletes the records that the ledger has passed.
func (w *world) trim(topic string) error {
	l := w.ledger()
	if l[topic].ID != w.truth.logs[topic] || w.audit.rolledBack() {
		return nil // that is not what the ledger has passed
	}
	for p, next := range l[topic].Next {
		if next <= w.broker.PartitionInfo(topic, p).LogStartOffset {
			continue
		}
		if err := w.broker.DeleteRecords(topic, p, next); err != nil {
			return err
		}
	}
	return nil
}

// overtake deletes records that the ledger has not passed.
func (w *world) overtake(topic string) error {
	if w.audit.rolledBack() {
		return nil
	}
	l := w.ledger()
	for _, p := range w.broker.PartitionInfos(topic) {
		next, _ := l.next(topic, w.truth.logs[topic], p.Partition)
		next = max(next, p.LogStartOffset)
		if next >= p.LastStableOffset {
			continue
		}
		at := next + 1 + w.rand.Int64N(p.LastStableOffset-next)
		w.truth.loosen(func(r *record) bool {
			return r.origin.topic == topic && r.origin.partition == p.Partition && r.origin.offset < at && r.origin.offset >= l.of(r)
		})
		if err := w.broker.DeleteRecords(topic, p.Partition, at); err != nil {
			return err
		}
	}
	return nil
}

// recreate deletes a topic and makes it again.
func (w *world) recreate(topic string, partitions int32) error {
	if w.txn != nil {
		_ = w.endTransaction(false)
	}
	w.truth.loosen(func(r *record) bool { return r.origin.topic == topic })
	if err := w.broker.DeleteTopic(topic); err != nil {
		return err
	}
	return w.create(topic, partitions)
}

// mend ends all faults.
func (w *world) mend() {
	for _, h := range w.faults {
		h.Remove()
	}
	w.faults = nil
	for _, i := range w.instances {
		i.gate.mend()
		i.gate.resume()
	}
}

// settle ends all faults and waits until everything is in the table.
func (w *world) settle() error {
	w.mend()
	if len(w.instances) == 0 {
		return nil
	}
	deadline := time.Now().Add(patience)
	for n := 1; w.waiting() != "" || w.back.waiting() != ""; n++ {
		if len(w.instances) == 0 {
			return nil // the last was a run to the ends, and they were before what has come since
		}
		if n%250 == 0 && w.audit.someUnaware() {
			// An idle owner hears at its next append that another instance has
			// rewound the ledger after a rollback.
			for _, topic := range topics {
				if err := w.produce(topic, 5); err != nil {
					return err
				}
			}
		}
		if len(w.audit.found()) > 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s without faults: %s %s", patience, w.waiting(), w.back.waiting())
		}
		time.Sleep(20 * time.Millisecond)
		w.look()
	}
	w.audit.caughtUp()
	return nil
}

// once runs an instance to the ends of the topics.
func (w *world) once() error {
	i, err := w.start(0, ourGroup, true)
	if err != nil {
		return err
	}
	defer i.kill()
	deadline := time.After(patience)
	for {
		select {
		case err := <-i.done:
			w.claimsAll(i)
			return err
		case <-time.After(200 * time.Millisecond):
			w.bury()
		case <-deadline:
			return fmt.Errorf("it has not ended after %s; the group: %+v", patience, w.broker.GroupInfo(ourGroup))
		}
	}
}
