package router

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"
)

// page is Status in words for people.
type page struct {
	Version string
	Uptime  string
	Now     string
	Routes  []pageRoute
}

// pageRoute is an ingest or a publish.
type pageRoute struct {
	Name, From, To, State, Mood, Complaint, FirstError string
	Facts                                              []pageFact
}

// pageFact is one number with its name, and what else there is to say about it.
type pageFact struct{ Name, Value, Note string }

func newPage(s Status, now time.Time) page {
	p := page{Version: s.Version, Uptime: ago(s.Started, now), Now: now.UTC().Format("2006-01-02 15:04:05 UTC")}
	for _, in := range s.Ingests {
		p.Routes = append(p.Routes, newPageIngest(in, now))
	}
	for _, out := range s.Publishes {
		p.Routes = append(p.Routes, newPagePublish(out, now))
	}
	return p
}

// feel chooses the mood, and what there is to complain about.
func (r *pageRoute) feel(complaint, err string, failing bool) {
	r.Mood, r.Complaint = "good", complaint
	switch {
	case r.State == StateHalted || r.State == StateFailed:
		r.Mood = "bad"
	case complaint != "" || failing:
		r.Mood = "wait"
	}
	if r.Complaint == "" {
		r.Complaint = err
	}
	if r.FirstError == err {
		r.FirstError = ""
	}
}

func newPageIngest(in IngestStatus, now time.Time) pageRoute {
	out := pageRoute{Name: in.Name, From: strings.Join(in.Topics, ", "), To: in.Table, State: in.State, FirstError: in.FirstError}
	out.feel(in.complaint(now), in.Error, !in.FailingSince.IsZero())
	next := "nothing buffered"
	if !in.NextCut.IsZero() {
		next = "cut in " + span(max(in.NextCut.Sub(now), 0))
	}
	commit := "none yet"
	if !in.LastCommit.IsZero() {
		commit = ago(in.LastCommit, now) + " ago"
	}
	took := ""
	if in.LastSnapshot != 0 {
		took = fmt.Sprintf("snapshot %d, took %s", in.LastSnapshot, span(in.LastCommitTook))
	}
	fresh, spread := in.Freshness.words("no row committed lately")
	out.Facts = []pageFact{
		{"lag", in.lagText(), fmt.Sprintf("records in %d partitions", in.Assigned)},
		{"freshness", fresh, spread},
		{"buffered", count(in.BufferedRows) + " rows", size(in.BufferedBytes) + ", " + next},
		{"last commit", commit, took},
		{"committed", count(in.Rows) + " rows", count(in.Commits) + " commits"},
		{"files", count(in.Files), fmt.Sprintf("%s, %s each", size(in.FileBytes), size(in.FileBytes/max(in.Files, 1)))},
		{"taken in", count(in.Records) + " records", size(in.Bytes)},
		{"in flight", fmt.Sprint(in.CutsInFlight), "cuts"},
	}
	for _, f := range []struct {
		name   string
		counts map[string]int64
	}{{"dead letters", in.DeadLetters}, {"skipped", in.Skipped}} {
		if total, reasons := tally(f.counts); total > 0 {
			out.Facts = append(out.Facts, pageFact{f.name, count(total), reasons})
		}
	}
	if in.LostRecords > 0 {
		out.Facts = append(out.Facts, pageFact{"lost", count(in.LostRecords), "records, gone from Kafka"})
	}
	if in.Restarts > 0 {
		out.Facts = append(out.Facts, pageFact{"restarts", fmt.Sprint(in.Restarts), ""})
	}
	return out
}

// words are the median and the rest of the quantiles, or that there are none.
func (f Freshness) words(none string) (median, spread string) {
	if f == (Freshness{}) {
		return "–", none
	}
	return span(f.P50), fmt.Sprintf("95%% %s, 99%% %s", span(f.P95), span(f.P99))
}

func newPagePublish(p PublishStatus, now time.Time) pageRoute {
	out := pageRoute{Name: p.Name, From: p.Table, To: p.Topic, State: p.State, FirstError: p.FirstError}
	out.feel(p.complaint(now), p.Error, !p.FailingSince.IsZero())
	lag, behind := "none", "caught up"
	if !p.BehindSince.IsZero() {
		lag, behind = ago(p.BehindSince, now), fmt.Sprintf("%s snapshots behind", count(int64(p.SnapshotsBehind)))
	}
	last, took := "none yet", ""
	if !p.LastTransaction.IsZero() {
		last, took = ago(p.LastTransaction, now)+" ago", "took "+span(p.LastTransactionTook)
	}
	fresh, spread := p.Freshness.words("no row published lately")
	out.Facts = []pageFact{
		{"lag", lag, behind},
		{"freshness", fresh, spread},
		{"published", count(p.Rows) + " rows", size(p.Bytes)},
		{"last transaction", last, took},
		{"transactions", count(p.Transactions), ""},
		{"shards", fmt.Sprint(p.Owned), p.slowest()},
	}
	for _, f := range []struct {
		name  string
		count int64
		note  string
	}{
		{"dead letters", p.DeadLetters, "rows"}, {"lost", p.LostSnapshots, "snapshots, expired before they were published"},
		{"skipped", p.SkippedSnapshots, "snapshots that delete or overwrite"}, {"fenced", p.Fenced, "transactions given up"}, {"restarts", int64(p.Restarts), ""},
	} {
		if f.count > 0 {
			out.Facts = append(out.Facts, pageFact{f.name, count(f.count), f.note})
		}
	}
	return out
}

// slowest says where the shard is that has the most to read.
func (p PublishStatus) slowest() string {
	if len(p.Shards) == 0 {
		return ""
	}
	slowest := slices.MaxFunc(p.Shards, func(a, b ShardStatus) int { return a.SnapshotsBehind - b.SnapshotsBehind })
	return fmt.Sprintf("shard %d at snapshot %d", slowest.Shard, slowest.Snapshot)
}

// tally sums counts up and lists them by reason.
func tally(counts map[string]int64) (total int64, reasons string) {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		total += counts[reason]
		parts = append(parts, reason+" "+count(counts[reason]))
	}
	return total, strings.Join(parts, ", ")
}

// count writes 1234567 as 1 234 567, with spaces that do not break.
func count(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// size writes bytes with three digits and a unit.
func size(n int64) string {
	v, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}

// span writes a duration as people say it.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func ago(t, now time.Time) string { return span(max(now.Sub(t), 0)) }

// pageTemplate needs nothing from anywhere and runs no script.
var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="2">
<title>router{{range .Routes}}{{if ne .Mood "good"}} · {{.Name}} {{.State}}{{end}}{{end}}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --good: #2a8a4a; --wait: #b07800; --bad: #c8322b; --soft: #777 }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.1rem; margin: 0 } h2 { font-size: 1.25rem; margin: 0 }
header, footer { display: flex; flex-wrap: wrap; gap: 0 1.5rem; align-items: baseline; color: var(--soft) }
header h1 { color: CanvasText }
section { border: 1px solid var(--line); border-left: 6px solid var(--good); border-radius: 6px; padding: 1rem 1.25rem; margin: 1.25rem 0 }
section.wait { border-left-color: var(--wait) } section.bad { border-left-color: var(--bad) }
.state { font-weight: 600; color: var(--good) } .wait .state { color: var(--wait) } .bad .state { color: var(--bad) }
.head { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline }
.soft, dd small { color: var(--soft) }
.why { margin: .75rem 0 0; padding: .5rem .75rem; background: #8881; border-radius: 4px; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .9rem 1.25rem; margin: 1rem 0 0 }
dt { color: var(--soft); font-size: .85rem } dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums }
dd small { display: block; font-size: .8rem }
</style>
<header><h1>router {{.Version}}</h1><span>up {{.Uptime}}</span></header>
{{range .Routes}}<section class="{{.Mood}}">
<div class="head"><h2>{{.Name}}</h2><span class="state">{{.State}}</span><span class="soft">{{.From}} → {{.To}}</span></div>
{{if .Complaint}}<p class="why">{{.Complaint}}</p>
{{end}}{{if .FirstError}}<p class="why">first: {{.FirstError}}</p>
{{end}}<dl>
{{range .Facts}}<div><dt>{{.Name}}</dt><dd>{{.Value}}{{if .Note}} <small>{{.Note}}</small>{{end}}</dd></div>
{{end}}</dl>
</section>
{{else}}<p>Nothing is configured.</p>
{{end}}<footer><span>{{.Now}}</span><span><a href="/status">status</a> · <a href="/metrics">metrics</a> · <a href="/readyz">readyz</a> · <a href="/livez">livez</a></span></footer>
</html>
`))
