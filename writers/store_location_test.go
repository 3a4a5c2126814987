package writers

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestParseLocation(t *testing.T) {
	for _, c := range []struct {
		location, authority, key string
		kind                     storeKind
	}{
		{"s3://b/k", "b", "k", kindS3},
		{"s3a://b/a%2Fb//c?d#e ", "b", "a%2Fb//c?d#e ", kindS3},
		{"S3N://b//k", "b", "/k", kindS3},
		{"s3://b", "b", "", kindS3},
		{"gs://b.c/k", "b.c", "k", kindGCS},
		{"abfss://c@a.dfs.core.windows.net/p/q", "c@a.dfs.core.windows.net", "p/q", kindAzure},
		{"mem://m/k", "m", "k", kindMemory},
		{"/a/b c", "", "/a/b c", kindFolder},
		{"/a:b/c", "", "/a:b/c", kindFolder},
		{"file:///a%20b?", "", "/a%20b?", kindFolder},
		{"file:/a", "", "/a", kindFolder},
		{"file://localhost/a", "", "/a", kindFolder},
	} {
		p, key, err := parseLocation(c.location)
		if err != nil || p.kind != c.kind || p.authority != c.authority || key != c.key {
			t.Errorf("%s: %+v, %q, %v", c.location, p, key, err)
		}
	}
	for location, want := range map[string]string{
		"": "absolute path", "a/b": "absolute path", "./a": "absolute path", "a:b": `scheme "a" is not supported`,
		"hdfs://n/p": `scheme "hdfs" is not supported; supported are file, s3`, "s3:/b/k": "names no bucket", "s3:///k": "names no bucket",
		"file://host/p": `names the host "host"`, "file:a": "absolute path", "abfss://a.dfs.core.windows.net/p": "CONTAINER@ACCOUNT",
		"ftp://u:hunter22@h/p": `scheme "ftp"`,
	} {
		_, _, err := parseLocation(location)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v", location, err)
		}
	}
}

// TestStoresKeep: one store for a place and a set of keys, however often it is
// opened and whatever else the properties say; a bounded number of them.
func TestStoresKeep(t *testing.T) {
	stores := NewStores(zap.NewNop())
	open := func(location string, properties map[string]string) *Store {
		t.Helper()
		st, err := stores.Open(t.Context(), location, properties)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	keys := func(secret string) map[string]string {
		return map[string]string{"s3.endpoint": "http://localhost:1", "s3.access-key-id": "id", "s3.secret-access-key": secret}
	}
	with := keys("a")
	with["write.format.default"] = "parquet"
	first := open("s3://b/x", keys("a"))
	if open("s3a://b/y", with) != first {
		t.Error("the same bucket and keys gave another store")
	}
	if open("s3://b/x", keys("b")) == first || open("s3://c/x", keys("a")) == first {
		t.Error("another bucket or other keys gave the same store")
	}
	if open("/a", nil) != open("file:///b", nil) {
		t.Error("the file system was opened twice")
	}
	memory := open("mem://m", nil)
	for i := range 3 * storesMax {
		open("s3://b/x", keys(fmt.Sprint("rotated", i)))
	}
	if len(stores.opened) != storesMax || len(stores.order) != storesMax {
		t.Errorf("%d stores are kept", len(stores.opened))
	}
	if open("mem://m/k", nil) != memory {
		t.Error("memory was forgotten")
	}
	if err := stores.Close(); err != nil {
		t.Error(err)
	}
	if _, err := stores.Open(t.Context(), "/a", nil); err == nil {
		t.Error("closed stores open")
	}
	if err := memory.WriteFile("mem://m/k", nil); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a closed store writes: %v", err)
	}
}

func TestStoresRefuseProperties(t *testing.T) {
	stores := NewStores(zap.NewNop())
	defer stores.Close()
	for _, c := range []struct{ location, property, value, want string }{
		{"s3://b", "s3.access-key-id", "id", "must be given together"},
		{"s3://b", "s3.connect-timeout", "soon", "seconds or a duration"},
		{"s3://b", "s3.connect-timeout", "-1", "seconds or a duration"},
		{"s3://b", "s3.path-style-access", "maybe", "true or false"},
		{"s3://b", "s3.proxy-uri", "u:hunter22@h", "must be a URL"},
		{"s3://b", "s3.sse.type", "rot13", "kms"},
		{"gs://b", "gcs.jsonkey", `{"private_key":"hunter22"}`, "gcs.credtype"},
		{"gs://b", "gcs.keypath", "/nonexistent", "gcs.keypath"},
		{"gs://b", "gcs.service.host", "localhost:4443", "must be a URL"},
		{"abfss://c@a.dfs.core.windows.net", "adls.auth.shared-key.account.name", "a", "shared"},
		{"abfss://c@a.dfs.core.windows.net", "adls.connection-string.a", "AccountKey=hunter22", "connection string"},
	} {
		_, err := stores.Open(t.Context(), c.location, map[string]string{c.property: c.value, "gcs.no-auth": fmt.Sprint(c.property == "gcs.service.host")})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter22") || !strings.Contains(err.Error(), c.location) {
			t.Errorf("%s = %s: %v", c.property, c.value, err)
		}
	}
}

func TestS3PathStyle(t *testing.T) {
	for _, c := range []struct {
		endpoint, virtual, path string
		want                    bool
	}{
		{"", "", "", false}, {"http://h", "", "", true}, {"http://h", "true", "", false}, {"http://h", "", "false", false},
		{"", "", "true", true}, {"", "false", "", true}, {"http://h", "true", "true", true},
	} {
		got, err := s3UsePathStyle(c.endpoint, map[string]string{"s3.force-virtual-addressing": c.virtual, "s3.path-style-access": c.path})
		if err != nil || got != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
