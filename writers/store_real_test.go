//go:build real

package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// realS3 starts an S3 server of its own and returns the properties for it and
// the function that runs its script with another verb.
func realS3(t *testing.T) (map[string]string, func(verb string)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	run := t.TempDir()
	script := func(verb string) {
		t.Helper()
		cmd := exec.Command("../test/real/s3", verb)
		cmd.Env = append(os.Environ(), "REAL_RUN="+run, "S3_PORT="+port, "S3_BUCKETS=warehouse")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("s3 %s: %v\n%s", verb, err, out)
		}
	}
	script("start")
	t.Cleanup(func() { script("kill") })
	return map[string]string{
		"s3.endpoint": "http://" + address, "s3.region": "us-east-1",
		"s3.access-key-id": "admin", "s3.secret-access-key": "password",
	}, script
}

// TestStoreRealS3 holds the store to the same contract as any other, and the
// server to what the store relies on.
func TestStoreRealS3(t *testing.T) {
	properties, script := realS3(t)
	for _, scheme := range []string{"s3", "s3a"} {
		st, _ := openStore(t, scheme+"://warehouse", properties)
		conform(t, st, scheme+"://warehouse/"+scheme)
	}
	t.Run("wrong secret", func(t *testing.T) {
		wrong := map[string]string{"s3.endpoint": properties["s3.endpoint"], "s3.access-key-id": "admin", "s3.secret-access-key": "plantedsecret"}
		st, _ := openStore(t, "s3://warehouse", wrong)
		_, err := st.PutNew(t.Context(), named("s3://warehouse/wrong"), []byte("x"))
		var e *StoreError
		if !errors.As(err, &e) || e.Remedy == "" || e.Attempts != 5 {
			t.Errorf("%v", err)
		}
	})
	t.Run("no bucket", func(t *testing.T) {
		st, _ := openStore(t, "s3://no-such-bucket", properties)
		_, err := st.PutNew(t.Context(), named("s3://no-such-bucket/x"), []byte("x"))
		var e *StoreError
		if !errors.As(err, &e) || e.Remedy == "" {
			t.Errorf("%v", err)
		}
		if _, err := st.ReadFile("s3://no-such-bucket/x"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a bucket that is not there looks like a missing object: %v", err)
		}
	})
	t.Run("killed", func(t *testing.T) { realKill(t, properties, script) })
}

// realKill kills the server while uploads run, and starts it again when they
// have noticed: all of them end well, by patience alone.
func realKill(t *testing.T, properties map[string]string, script func(string)) {
	noticed := make(chan struct{}, 1)
	st, _ := openStore(t, "s3://warehouse", properties, zap.Hooks(func(zapcore.Entry) error {
		select {
		case noticed <- struct{}{}:
		default:
		}
		return nil
	}))
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB
	locations := make([]string, 64)
	var all sync.WaitGroup
	for i := range locations {
		all.Go(func() {
			location, err := st.PutNew(t.Context(), named(fmt.Sprintf("s3://warehouse/kill/%d", i)), body)
			if err != nil {
				t.Error(err)
			}
			locations[i] = location
		})
	}
	script("kill")
	<-noticed
	script("start")
	all.Wait()
	for _, location := range locations {
		if got, err := st.ReadFile(location); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v", location, len(got), err)
		}
	}
}
