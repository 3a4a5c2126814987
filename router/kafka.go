package router

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.uber.org/zap"
)

// Limits of the conversation with Kafka.
const (
	kafkaConnectTimeout = 15 * time.Second // a broker that has not answered by then is reported, with its last error
	kafkaRequestTimeout = 30 * time.Second // for one administrative question
	topicRefreshMax     = 15 * time.Second // how long a new partition may stay unseen
)

// brokerErrors remembers why the last connection to a broker did not come
// about: the client itself retries in silence, a wrong password included.
type brokerErrors struct {
	mu   sync.Mutex
	last error
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (b *brokerErrors) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("broker %s: %w", net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), err)
	}
	b.last = err
}

func (b *brokerErrors) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// kafkaOptions are the options every client of the process shares: addresses,
// identity, TLS and SASL.
func kafkaOptions(c KafkaConfig, log *zap.Logger) ([]kgo.Opt, *brokerErrors, error) {
	failed := &brokerErrors{}
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithHooks(failed),
		kgo.WithLogger(kafkaLog{log.Named("kafka")}),
		kgo.MetadataMaxAge(topicRefreshMax),
	}
	var security *tls.Config
	if c.TLS != nil {
		var err error
		if security, err = tlsConfig(*c.TLS); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case c.dial != nil:
		opts = append(opts, kgo.Dialer(secured(c.dial, security)))
	case security != nil:
		opts = append(opts, kgo.DialTLSConfig(security))
	}
	if s := c.SASL; s != nil {
		switch s.Mechanism {
		case "PLAIN":
			opts = append(opts, kgo.SASL(plain.Auth{User: s.Username, Pass: s.Password}.AsMechanism()))
		case "SCRAM-SHA-256":
			opts = append(opts, kgo.SASL(scram.Auth{User: s.Username, Pass: s.Password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			opts = append(opts, kgo.SASL(scram.Auth{User: s.Username, Pass: s.Password}.AsSha512Mechanism()))
		default:
			return nil, nil, fmt.Errorf("kafka.sasl.mechanism = %q: must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
		}
	}
	return opts, failed, nil
}

// dialFunc makes a connection; nil is the machine's network.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// secured adds TLS to what dial makes, if there is a configuration for it.
func secured(dial dialFunc, security *tls.Config) dialFunc {
	if security == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		t := security.Clone()
		if t.ServerName == "" {
			t.ServerName, _, _ = net.SplitHostPort(address)
		}
		c := tls.Client(plain, t)
		if err := c.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		return c, nil
	}
}

// tlsConfig reads the certificates of [kafka.tls].
func tlsConfig(c TLSConfig) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.ca_file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("kafka.tls.ca_file = %q: holds no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read kafka.tls.cert_file and key_file: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// connectKafka makes a client and waits until a broker answers. An error names
// the brokers, the cause and the keys to look at.
func connectKafka(ctx context.Context, c KafkaConfig, log *zap.Logger, more ...kgo.Opt) (*kgo.Client, error) {
	opts, failed, err := kafkaOptions(c, log)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, kafkaConnectTimeout)
	defer cancel()
	for {
		if err = client.Ping(bounded); err == nil {
			return client, nil
		}
		if cause := failed.err(); cause != nil {
			err = cause
		}
		if bounded.Err() != nil || refusedLogin(err) || distrusted(err) {
			break
		}
		select {
		case <-bounded.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	client.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("connect to kafka at %s: %w; %s", strings.Join(c.Brokers, ", "), err, kafkaRemedy(err))
}

// refusedLogin tells whether the broker answered and said no, so that asking
// again is of no use.
func refusedLogin(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "sasl") || strings.Contains(text, "authentication")
}

// distrusted tells whether we do not believe the broker's certificate: it will
// show the same one again.
func distrusted(err error) bool {
	var wrong *tls.CertificateVerificationError
	return errors.As(err, &wrong)
}

// kafkaRemedy says what to look at when a broker can't be talked to.
func kafkaRemedy(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	switch {
	case refusedLogin(err):
		return "check kafka.sasl (mechanism, username, password)"
	case errors.As(err, &unknown):
		return "the broker's certificate is not signed by kafka.tls.ca_file"
	case errors.As(err, &host):
		return "the broker's certificate is for another host: check kafka.brokers or set kafka.tls.server_name"
	}
	return "check kafka.brokers, and kafka.tls and kafka.sasl if the listener wants them"
}

// topicIDs asks a broker for the cluster id and the ids of topics. A topic that
// does not exist is an error that names it. The admin client's own questions
// are answered from a cache of up to five seconds, in which a topic may have
// been made again.
func topicIDs(ctx context.Context, client *kgo.Client, topics []string) (cluster string, ids map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, t)
	}
	meta, err := req.RequestWith(ctx, client)
	if err != nil {
		return "", nil, fmt.Errorf("read metadata of topics %s: %w", strings.Join(topics, ", "), err)
	}
	if meta.ClusterID != nil {
		cluster = *meta.ClusterID
	}
	ids = make(map[string]string, len(topics))
	for _, t := range meta.Topics {
		if t.Topic == nil {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return "", nil, fmt.Errorf("topic %q on cluster %s: create it or correct topics: %w", *t.Topic, cluster, err)
		}
		ids[*t.Topic] = topicID(t.TopicID)
	}
	for _, topic := range topics {
		if _, ok := ids[topic]; !ok {
			return "", nil, fmt.Errorf("topic %q does not exist on cluster %s: create it or correct topics", topic, cluster)
		}
	}
	return cluster, ids, nil
}

// topicID is the text of a topic's id, as the ledger keeps it.
func topicID(id [16]byte) string { return kadm.TopicID(id).String() }

// passGaps asks the broker what lies at next when a poll brings nothing though
// the partition goes on to end: control records, aborted transactions and
// compacted batches have offsets and no records. It returns the first offset
// from next on that may hold a record, or end.
func passGaps(ctx context.Context, client *kgo.Client, topic string, id [16]byte, partition int32, next, end int64) (int64, error) {
	leader, epoch, err := client.PartitionLeader(topic, partition)
	if err != nil {
		return next, fmt.Errorf("find leader of %s/%d: %w", topic, partition, err)
	}
	for next < end {
		records, after, err := fetchAt(ctx, client, brokerOf{leader, epoch}, topic, id, partition, next)
		if err != nil {
			return next, err
		}
		if len(records) > 0 {
			return records[0].Offset, nil
		}
		if after <= next {
			return next, nil // nothing there yet: ask again later
		}
		next = after
	}
	return next, nil
}

// brokerOf is the leader of a partition, as of an epoch.
type brokerOf struct{ leader, epoch int32 }

// fetchAt asks once for the committed records of a partition from next on, and
// returns the offset that follows what the broker had to show.
func fetchAt(ctx context.Context, client *kgo.Client, from brokerOf, topic string, id [16]byte, partition int32, next int64) ([]*kgo.Record, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 1, 1<<20, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, next, 1<<20, from.epoch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := client.Broker(int(from.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, next, fmt.Errorf("fetch %s/%d at %d: %w", topic, partition, next, err)
	}
	resp := answer.(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, next, nil
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: next, IsolationLevel: kgo.ReadCommitted(), Topic: topic, Partition: partition}
	got, after := kgo.ProcessFetchPartition(opts, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return nil, next, fmt.Errorf("fetch %s/%d at %d: %w", topic, partition, next, got.Err)
	}
	return got.Records, after, nil
}

// kafkaLog hands the client's log lines on to zap.
type kafkaLog struct{ log *zap.Logger }

// Level implements kgo.Logger.
func (l kafkaLog) Level() kgo.LogLevel {
	if l.log.Core().Enabled(zap.DebugLevel) {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelWarn
}

// Log implements kgo.Logger. The client's own warnings are about conditions
// that it mends by itself, so they are information to us.
func (l kafkaLog) Log(level kgo.LogLevel, text string, pairs ...any) {
	fields := make([]zap.Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		fields = append(fields, zap.Any(fmt.Sprint(pairs[i]), pairs[i+1]))
	}
	if level <= kgo.LogLevelWarn {
		l.log.Info(text, fields...)
		return
	}
	l.log.Debug(text, fields...)
}
