package router

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metric is one row of the table of everything the router counts. README.md
// shows the same table, and a test compares the two.
type metric struct {
	name    string
	kind    string // counter | gauge | histogram
	labels  []string
	buckets []float64 // of a histogram
	help    string
}

// metricTable declares every metric. Labels are bounded: an ingest's name, a
// reason out of a fixed set, an outcome out of five.
var metricTable = []metric{
	{"router_records_total", "counter", perIngest, nil, "Kafka records taken in."},
	{"router_record_bytes_total", "counter", perIngest, nil, "Bytes of keys and values of the records taken in."},
	{"router_rows_total", "counter", perIngest, nil, "Rows committed to the table."},
	{"router_files_total", "counter", perIngest, nil, "Data files committed to the table."},
	{"router_file_bytes_total", "counter", perIngest, nil, "Bytes of the data files committed to the table."},
	{"router_commits_total", "counter", []string{"ingest", "outcome"}, nil, "Attempts to commit, by outcome: landed, refused, unknown (settled by reading the table again), fenced, conflict."},
	{"router_commit_seconds", "histogram", perIngest, commitBuckets, "Time of a commit, all attempts together."},
	{"router_upload_seconds", "histogram", perIngest, commitBuckets, "Time to close and upload the files of a cut."},
	{"router_freshness_seconds", "histogram", perIngest, freshnessBuckets, "Time from a record's Kafka timestamp to the commit that carries its row; one observation a row."},
	{"router_lag_records", "gauge", perIngest, nil, "Offsets between the table and the ends of the partitions owned; absent while the ends are not known."},
	{"router_seconds_since_commit", "gauge", perIngest, nil, "Time since the last commit; before the first, since the start."},
	{"router_ready", "gauge", perIngest, nil, "1 while the ingest gets on, 0 while /readyz would complain about it."},
	{"router_buffered_rows", "gauge", perIngest, nil, "Rows in the open cut."},
	{"router_buffered_bytes", "gauge", perIngest, nil, "Bytes of memory the open cut holds."},
	{"router_open_files", "gauge", perIngest, nil, "Data files of the open cut."},
	{"router_cuts_in_flight", "gauge", perIngest, nil, "Cuts that are uploaded or wait for their commit."},
	{"router_dead_letters_total", "counter", []string{"ingest", "reason"}, nil, "Records sent to the dead-letter topic, by reason."},
	{"router_skipped_total", "counter", []string{"ingest", "reason"}, nil, "Records dropped by policy, by reason."},
	{"router_lost_records_total", "counter", perIngest, nil, "Offsets that were gone from Kafka before they were read."},
	{"router_fenced_total", "counter", perIngest, nil, "Appends thrown away because another instance had moved the ledger."},
	{"router_restarts_total", "counter", perIngest, nil, "Restarts of the ingest after a failure."},
	{"router_publish_rows_total", "counter", perPublish, nil, "Rows published, in committed transactions."},
	{"router_publish_bytes_total", "counter", perPublish, nil, "Bytes of keys, values and headers of the records published."},
	{"router_publish_transactions_total", "counter", []string{"publish", "outcome"}, nil, "Transactions by outcome: committed, aborted (their rows are published again)."},
	{"router_publish_transaction_seconds", "histogram", perPublish, commitBuckets, "Time of a committed transaction, from its first row."},
	{"router_publish_freshness_seconds", "histogram", perPublish, freshnessBuckets, "Time from the commit of a row's snapshot to the end of the transaction with its record; one observation a row."},
	{"router_publish_snapshots_behind", "gauge", perPublish, nil, "Snapshots that the slowest shard of this instance has still to publish."},
	{"router_publish_lag_seconds", "gauge", perPublish, nil, "Age of the oldest snapshot that this instance has still to publish."},
	{"router_publish_shards", "gauge", perPublish, nil, "Shards that this instance works on."},
	{"router_publish_seconds_since_transaction", "gauge", perPublish, nil, "Time since the last committed transaction; before the first, since the start."},
	{"router_publish_ready", "gauge", perPublish, nil, "1 while the publish gets on, 0 while /readyz would complain about it."},
	{"router_publish_dead_letters_total", "counter", perPublish, nil, "Rows that could not be records and went to the dead-letter topic."},
	{"router_publish_lost_snapshots_total", "counter", perPublish, nil, "Snapshots that were expired before they were published and passed over by policy, at most."},
	{"router_publish_skipped_snapshots_total", "counter", perPublish, nil, "Snapshots that delete or overwrite, passed over by policy."},
	{"router_publish_fenced_total", "counter", perPublish, nil, "Transactions given up because another instance had the shard, or the brokers had aborted them."},
	{"router_publish_restarts_total", "counter", perPublish, nil, "Restarts of the publish after a failure."},
	{"router_build_info", "gauge", []string{"version", "go"}, nil, "Always 1; the labels say what runs."},
}

var (
	perIngest  = []string{"ingest"}
	perPublish = []string{"publish"}
)

var (
	commitBuckets    = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	freshnessBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 120, 300, 600}
)

// metrics is the registry of one router. Nothing is registered globally, so a
// process may hold several.
type metrics struct {
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
	freshness  *weightedHistogram

	publishFreshness *weightedHistogram
}

func newMetrics() *metrics {
	m := &metrics{
		registry:   prometheus.NewRegistry(),
		counters:   map[string]*prometheus.CounterVec{},
		gauges:     map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{},
	}
	for _, d := range metricTable {
		switch {
		case d.name == "router_freshness_seconds":
			m.freshness = newWeightedHistogram(d)
			m.registry.MustRegister(m.freshness)
		case d.name == "router_publish_freshness_seconds":
			m.publishFreshness = newWeightedHistogram(d)
			m.registry.MustRegister(m.publishFreshness)
		case d.kind == "counter":
			m.counters[d.name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help}, d.labels)
			m.registry.MustRegister(m.counters[d.name])
		case d.kind == "gauge":
			m.gauges[d.name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.name, Help: d.help}, d.labels)
			m.registry.MustRegister(m.gauges[d.name])
		case d.kind == "histogram":
			m.histograms[d.name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: d.buckets}, d.labels)
			m.registry.MustRegister(m.histograms[d.name])
		default:
			panic(fmt.Sprintf("metric %s is a %q, which is no kind", d.name, d.kind))
		}
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// build sets the version that router_build_info shows.
func (m *metrics) build(version string) {
	m.gauges["router_build_info"].Reset()
	m.gauges["router_build_info"].WithLabelValues(version, runtime.Version()).Set(1)
}

// look sets the metrics that time moves by itself. Each scrape calls it.
func (m *metrics) look(s Status, now time.Time) {
	m.build(s.Version)
	for _, in := range s.Ingests {
		last := in.LastCommit
		if last.IsZero() {
			last = s.Started
		}
		m.gauges["router_seconds_since_commit"].WithLabelValues(in.Name).Set(max(now.Sub(last).Seconds(), 0))
		ready := 1.0
		if in.complaint(now) != "" {
			ready = 0
		}
		if in.LagUnknown {
			m.gauges["router_lag_records"].DeleteLabelValues(in.Name)
		} else {
			m.gauges["router_lag_records"].WithLabelValues(in.Name).Set(float64(in.LagRecords))
		}
		m.gauges["router_ready"].WithLabelValues(in.Name).Set(ready)
	}
	for _, p := range s.Publishes {
		last := p.LastTransaction
		if last.IsZero() {
			last = s.Started
		}
		m.gauges["router_publish_seconds_since_transaction"].WithLabelValues(p.Name).Set(max(now.Sub(last).Seconds(), 0))
		ready := 1.0
		if p.complaint(now) != "" {
			ready = 0
		}
		m.gauges["router_publish_ready"].WithLabelValues(p.Name).Set(ready)
	}
}

// ingestMetrics are the metrics of one ingest, found once: the path itself
// looks nothing up. All of it is safe for concurrent use.
type ingestMetrics struct {
	records, recordBytes, rows, files, fileBytes prometheus.Counter
	lost, fenced, restarts                       prometheus.Counter
	commitSeconds, uploadSeconds                 prometheus.Observer
	bufferedRows, bufferedBytes                  prometheus.Gauge
	openFiles, cutsInFlight                      prometheus.Gauge
	commits, deadLetters, skipped                *prometheus.CounterVec // by ingest and one label more
	name                                         string
	fresh                                        *weightedSeries
}

// ingest returns the metrics of the ingest of that name, all of them at zero,
// so that a rate has a beginning.
func (m *metrics) ingest(name string) *ingestMetrics {
	counter := func(metric string) prometheus.Counter { return m.counters[metric].WithLabelValues(name) }
	gauge := func(metric string) prometheus.Gauge { return m.gauges[metric].WithLabelValues(name) }
	out := &ingestMetrics{
		name:          name,
		records:       counter("router_records_total"),
		recordBytes:   counter("router_record_bytes_total"),
		rows:          counter("router_rows_total"),
		files:         counter("router_files_total"),
		fileBytes:     counter("router_file_bytes_total"),
		lost:          counter("router_lost_records_total"),
		fenced:        counter("router_fenced_total"),
		restarts:      counter("router_restarts_total"),
		commitSeconds: m.histograms["router_commit_seconds"].WithLabelValues(name),
		uploadSeconds: m.histograms["router_upload_seconds"].WithLabelValues(name),
		bufferedRows:  gauge("router_buffered_rows"),
		bufferedBytes: gauge("router_buffered_bytes"),
		openFiles:     gauge("router_open_files"),
		cutsInFlight:  gauge("router_cuts_in_flight"),
		commits:       m.counters["router_commits_total"],
		deadLetters:   m.counters["router_dead_letters_total"],
		skipped:       m.counters["router_skipped_total"],
		fresh:         m.freshness.series(name),
	}
	for _, outcome := range []string{"landed", "refused", "unknown", "fenced", "conflict"} {
		out.commits.WithLabelValues(name, outcome)
	}
	return out
}

// commit counts an attempt by its outcome.
func (m *ingestMetrics) commit(outcome string) { m.commits.WithLabelValues(m.name, outcome).Inc() }

// deadLetter counts a record sent away.
func (m *ingestMetrics) deadLetter(reason string) {
	m.deadLetters.WithLabelValues(m.name, reason).Inc()
}

// skip counts n records dropped.
func (m *ingestMetrics) skip(reason string, n int64) {
	m.skipped.WithLabelValues(m.name, reason).Add(float64(n))
}

// freshness counts n rows that took d.
func (m *ingestMetrics) freshness(d time.Duration, n int64) { m.fresh.observe(d.Seconds(), n) }

// weightedHistogram is a histogram that takes many equal observations at once:
// a commit tells the freshness of a million rows in a few calls.
type weightedHistogram struct {
	desc    *prometheus.Desc
	buckets []float64

	mu  sync.Mutex
	all map[string]*weightedSeries
}

type weightedSeries struct {
	buckets []float64

	mu     sync.Mutex
	counts []uint64 // one a bucket, and one past the last
	sum    float64
}

func newWeightedHistogram(d metric) *weightedHistogram {
	return &weightedHistogram{desc: prometheus.NewDesc(d.name, d.help, d.labels, nil), buckets: d.buckets, all: map[string]*weightedSeries{}}
}

func (h *weightedHistogram) series(ingest string) *weightedSeries {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.all[ingest]
	if s == nil {
		s = &weightedSeries{buckets: h.buckets, counts: make([]uint64, len(h.buckets)+1)}
		h.all[ingest] = s
	}
	return s
}

// observe counts v n times. A clock that runs ahead of ours makes negative
// ages: they count as zero.
func (s *weightedSeries) observe(v float64, n int64) {
	if n <= 0 || math.IsNaN(v) {
		return
	}
	v = max(v, 0)
	i, _ := slices.BinarySearch(s.buckets, v) // a bucket holds its upper bound
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[i] += uint64(n)
	s.sum += v * float64(n)
}

// Describe implements prometheus.Collector.
func (h *weightedHistogram) Describe(out chan<- *prometheus.Desc) { out <- h.desc }

// Collect implements prometheus.Collector.
func (h *weightedHistogram) Collect(out chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ingest, s := range h.all {
		s.mu.Lock()
		cumulative, total := make(map[float64]uint64, len(h.buckets)), uint64(0)
		for i, bound := range h.buckets {
			total += s.counts[i]
			cumulative[bound] = total
		}
		total += s.counts[len(h.buckets)]
		sum := s.sum
		s.mu.Unlock()
		out <- prometheus.MustNewConstHistogram(h.desc, total, sum, cumulative, ingest)
	}
}
