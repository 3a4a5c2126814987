package writers

import (
	"fmt"
	"strings"
)

// storeKind is a kind of store.
type storeKind uint8

const (
	kindFolder storeKind = iota
	kindS3
	kindGCS
	kindAzure
	kindMemory
)

// place is what one client can reach: a bucket, a container or the file system.
type place struct {
	kind      storeKind
	scheme    string // as it was opened, for people
	authority string // bucket, or container@account.host; "" for the file system
}

// String shows the place to people.
func (p place) String() string {
	if p.kind == kindFolder {
		return "file system"
	}
	return p.scheme + "://" + p.authority
}

// reads reports whether a property may concern the place.
func (p place) reads(property string) bool {
	prefixes := map[storeKind][]string{kindS3: {"s3.", "client."}, kindGCS: {"gcs."}, kindAzure: {"adls."}}[p.kind]
	for _, prefix := range prefixes {
		if strings.HasPrefix(property, prefix) {
			return true
		}
	}
	return false
}

var kindsByScheme = map[string]storeKind{
	"file": kindFolder, "s3": kindS3, "s3a": kindS3, "s3n": kindS3, "gs": kindGCS,
	"abfs": kindAzure, "abfss": kindAzure, "wasb": kindAzure, "wasbs": kindAzure, "mem": kindMemory,
}

// parseLocation splits a location into its place and the key of the object
// there. Nothing is decoded or cleaned: in "s3://b/a%2Fb//c?d#e" the key is
// "a%2Fb//c?d#e". The key of a file is its absolute path.
func parseLocation(location string) (place, string, error) {
	scheme, rest, ok := strings.Cut(location, ":")
	if !ok || strings.ContainsAny(scheme, "/.") || scheme == "" {
		if !strings.HasPrefix(location, "/") {
			return place{}, "", fmt.Errorf("location %q: must be an absolute path or begin with a scheme such as s3://", redact(location, nil))
		}
		return place{kind: kindFolder, scheme: "file"}, location, nil
	}
	kind, known := kindsByScheme[strings.ToLower(scheme)]
	if !known {
		return place{}, "", fmt.Errorf("location %q: scheme %q is not supported; supported are file, s3, s3a, s3n, gs, abfs, abfss, wasb and wasbs", redact(location, nil), scheme)
	}
	if kind == kindFolder {
		path := rest
		if after, ok := strings.CutPrefix(rest, "//"); ok { // file://host/path
			host, _, _ := strings.Cut(after, "/")
			if host != "" && !strings.EqualFold(host, "localhost") {
				return place{}, "", fmt.Errorf("location %q: names the host %q; a local file is file:///path", location, host)
			}
			path = after[len(host):]
		}
		if !strings.HasPrefix(path, "/") {
			return place{}, "", fmt.Errorf("location %q: must have an absolute path", location)
		}
		return place{kind: kindFolder, scheme: "file"}, path, nil
	}
	after, ok := strings.CutPrefix(rest, "//")
	authority, key, _ := strings.Cut(after, "/")
	if !ok || authority == "" {
		return place{}, "", fmt.Errorf("location %q: names no bucket", redact(location, nil))
	}
	if kind == kindAzure {
		container, host, ok := strings.Cut(authority, "@")
		if !ok || container == "" || host == "" {
			return place{}, "", fmt.Errorf("location %q: must be %s://CONTAINER@ACCOUNT.HOST/path", redact(location, nil), scheme)
		}
	}
	return place{kind: kind, scheme: scheme, authority: authority}, key, nil
}

// key returns the key of a location in the store.
func (s *Store) key(location string) (string, error) {
	p, key, err := parseLocation(location)
	if err != nil {
		return "", err
	}
	if p.kind != s.place.kind || p.authority != s.place.authority {
		return "", fmt.Errorf("location %q: lies outside of the opened store %s", redact(location, s.secrets), s.place)
	}
	if key == "" || strings.HasSuffix(key, "/") {
		return "", fmt.Errorf("location %q: names no object", redact(location, s.secrets))
	}
	return key, nil
}
