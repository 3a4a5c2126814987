package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// servers are the scripts of test/real with a folder and ports of their own.
type servers struct {
	run   string
	ports map[string]int
}

func newServers(run string) (*servers, error) {
	s := &servers{run: run, ports: map[string]int{}}
	for _, name := range []string{"KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "S3_PORT"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		s.ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return s, nil
}

func (s *servers) kafka() string { return fmt.Sprint("127.0.0.1:", s.ports["KAFKA_PORT"]) }

func (s *servers) script(ctx context.Context, name, verb string) error {
	cmd := exec.CommandContext(ctx, filepath.Join("test", "real", name), verb)
	cmd.Env = append(os.Environ(), "REAL_RUN="+s.run, "KAFKA_HEAP=1g")
	for key, port := range s.ports {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", key, port))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, verb, err, out)
	}
	return nil
}

func (s *servers) clean() error {
	ctx := context.Background() // also after an interrupt
	return errors.Join(s.script(ctx, "kafka", "clean"), s.script(ctx, "s3", "clean"))
}

// head is the part of a configuration that both ways share.
func (s *servers) head(o options, number int, folder string) string {
	warehouse, properties := "file://"+filepath.Join(folder, "warehouse"), ""
	if o.store == "s3" {
		warehouse = fmt.Sprint("s3://warehouse/run", number)
		properties = fmt.Sprintf("[catalog.properties]\n\"s3.endpoint\" = \"http://127.0.0.1:%d\"\n\"s3.region\" = \"us-east-1\"\n\"s3.access-key-id\" = \"admin\"\n\"s3.secret-access-key\" = \"password\"\n\"s3.path-style-access\" = \"true\"\n",
			s.ports["S3_PORT"])
	}
	return fmt.Sprintf(`memory_max = %q
[kafka]
brokers = [%q]
[catalog]
type = "sql"
uri = %q
warehouse = %q
%s
[http]
listen = ""
`, o.memoryMax, s.kafka(), "sqlite:"+filepath.Join(folder, "catalog.db"), warehouse, properties)
}

// config is the router's for one run.
func (s *servers) config(o options, number int, folder string) string {
	return s.head(o, number, folder) + fmt.Sprintf(`[[ingest]]
name = "bench%d"
topics = ["bench"]
table = "bench.records"
trigger = "1h"
trigger_bytes = "0"
codec = %q
target_file_size = %q
[ingest.create]
partition = [%q]
schema = [%s]
`, number, o.codec, o.targetSize, partition(o.records), columns(o.records))
}

// dataFiles counts what the run wrote.
func (s *servers) dataFiles(o options, number int, folder string) (int, error) {
	root := folder
	if o.store == "s3" {
		root = s.bucket(number)
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			files++
		}
		return err
	})
	return files, err
}

// bucket is the folder in which the S3 server keeps what a run wrote.
func (s *servers) bucket(number int) string {
	return filepath.Join(s.run, "s3", "data", "warehouse", fmt.Sprint("run", number))
}

// forget removes what a run wrote that isn't in its folder.
func (s *servers) forget(o options, number int) error {
	if o.store != "s3" {
		return nil
	}
	return os.RemoveAll(s.bucket(number))
}

// processor names the CPU, as far as Linux tells.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(line, "model name") {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}
