package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"icerouter/catalog"
)

// checkKafka connects, and asks for every topic and group that is named.
func (k *checkup) checkKafka(ctx context.Context) {
	client, err := connectKafka(ctx, k.cfg.Kafka, k.log)
	if err != nil {
		k.problem(kafkaKey(k.cfg.Kafka, err), "%v", err)
		return
	}
	adm := kadm.NewClient(client)
	k.later(adm.Close)
	ctx, cancel := context.WithTimeout(ctx, 2*kafkaRequestTimeout)
	defer cancel()
	all, err := adm.ListTopics(ctx)
	if err != nil {
		k.problem("kafka.brokers", "list topics: %v", err)
		return
	}
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		k.problem("kafka.brokers", "ask for brokers: %v", err)
		return
	}
	k.well("kafka", "cluster %s, %d brokers", meta.Cluster, len(meta.Brokers))
	for i, in := range k.ingests {
		if k.checkTopics(i, all) {
			in.admin = adm // its ledger can be compared
			in.source.Store(&catalog.Source{Cluster: meta.Cluster, TopicIDs: topicIDsOf(all, in.cfg.Topics)})
		}
		k.checkGroup(ctx, fmt.Sprintf("ingest[%d].group", i), in.cfg.GroupID(), adm)
	}
	for i, p := range k.publishes {
		p.asker = client
		p.openKafka()
		k.checkPublishTopics(ctx, i, all)
		k.checkGroup(ctx, fmt.Sprintf("publish[%d].group", i), p.cfg.GroupID(), adm)
	}
}

// kafkaKey is the key to look at first when the brokers cannot be reached.
func kafkaKey(c KafkaConfig, err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // the text around it names keys itself
	}
	text := strings.ToLower(err.Error())
	switch {
	case c.SASL != nil && refusedLogin(err):
		return "kafka.sasl"
	case c.TLS != nil && (strings.Contains(text, "tls") || strings.Contains(text, "x509") || strings.Contains(text, "certificate")):
		return "kafka.tls"
	}
	return "kafka.brokers"
}

func topicIDsOf(all kadm.TopicDetails, topics []string) map[string]string {
	ids := make(map[string]string, len(topics))
	for _, t := range topics {
		ids[t] = all[t].ID.String()
	}
	return ids
}

// checkTopics looks for the topics of an ingest, and tells whether it can read
// them all.
func (k *checkup) checkTopics(i int, all kadm.TopicDetails) bool {
	in := k.cfg.Ingest[i]
	readable, partitions := true, 0
	for j, topic := range in.Topics {
		if what := missingTopic(all, topic); what != "" {
			k.problem(fmt.Sprintf("ingest[%d].topics[%d]", i, j), "%s", what)
			readable = false
		}
		partitions += len(all[topic].Partitions)
	}
	if in.DeadLetterTopic != "" {
		if what := missingTopic(all, in.DeadLetterTopic); what != "" {
			k.problem(fmt.Sprintf("ingest[%d].dead_letter_topic", i), "%s", what)
		}
	}
	if readable {
		k.well("ingest "+in.Name, "topics %s, %d partitions", strings.Join(in.Topics, ", "), partitions)
	}
	return readable
}

// missingTopic says why a topic cannot be used, or nothing.
func missingTopic(all kadm.TopicDetails, topic string) string {
	detail, ok := all[topic]
	switch {
	case !ok || errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
		what := "the topic does not exist, or this login may not see it; create it, or correct the name"
		if near := nearest(topic, slices.Sorted(mapKeys(all))); near != "" {
			what += fmt.Sprintf(" (did you mean %q?)", near)
		}
		return what
	case errors.Is(detail.Err, kerr.TopicAuthorizationFailed):
		return "this login may not read the topic; allow it Describe and Read"
	case detail.Err != nil:
		return detail.Err.Error()
	}
	for _, p := range detail.Partitions {
		if p.Err != nil && p.Leader < 0 {
			return fmt.Sprintf("partition %d has no leader: %v", p.Partition, p.Err)
		}
	}
	return ""
}

// checkGroup asks for the group as a member would.
func (k *checkup) checkGroup(ctx context.Context, key, group string, adm *kadm.Client) {
	if _, err := adm.FetchOffsets(ctx, group); errors.Is(err, kerr.GroupAuthorizationFailed) {
		k.problem(key, "this login may not use the group %s; allow it Read, or name another group", group)
	}
}
