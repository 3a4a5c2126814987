package writers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Stores opens stores and keeps them, so that a process has one client for each
// bucket and set of keys. It is safe for concurrent use.
type Stores struct {
	// Dial makes the connections to S3; nil is the machine's network. It is set
	// before the first Open.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	log  *zap.Logger
	ctx  context.Context // ends with Close; never a caller's, which may end before the store does
	stop context.CancelFunc
	pace pace

	mu     sync.Mutex
	opened map[[sha256.Size]byte]*Store
	order  [][sha256.Size]byte // of opened, oldest first
}

// storesMax bounds the stores that are kept: catalogs that hand out short-lived
// keys ask for a new store with each of them.
const storesMax = 64

// objects is one bucket, container or file system. Every method is a single
// attempt; Store adds patience. Absent objects are fs.ErrNotExist, existing
// ones fs.ErrExist. Implementations are safe for concurrent use.
type objects interface {
	// create makes an object, whole and durable, unless the key has one. It only
	// reads body, and calls alive whenever some of it got away.
	create(ctx context.Context, key string, body []byte, contentType string, alive func()) error
	// read returns the whole object and calls alive whenever some of it arrived.
	read(ctx context.Context, key string, alive func()) ([]byte, error)
	// readPart reads all of to from a place of the object on.
	readPart(ctx context.Context, key string, at int64, to []byte, alive func()) error
	// remove deletes an object. One that is not there may be no error.
	remove(ctx context.Context, key string) error
	close() error
}

// NewStores returns an empty cache of stores. Retries are logged to log.
func NewStores(log *zap.Logger) *Stores {
	ctx, stop := context.WithCancel(context.Background())
	return &Stores{log: log, ctx: ctx, stop: stop, pace: defaultPace(), opened: map[[sha256.Size]byte]*Store{}}
}

// Open returns the store that location lies in, by its scheme: s3, s3a, s3n; gs;
// abfs, abfss, wasb, wasbs; file or an absolute path; mem, which is memory of
// this Stores and made for tests. Properties are named as every Iceberg client
// names them. Open does not ask the store whether the bucket exists.
//
// ctx bounds Open alone. A store is valid until Close.
func (s *Stores) Open(ctx context.Context, location string, properties map[string]string) (*Store, error) {
	p, _, err := parseLocation(location)
	if err != nil {
		return nil, err
	}
	secrets := secretsOf(properties)
	id := storeID(p, properties)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ctx.Err(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", p, fs.ErrClosed)
	}
	if st := s.opened[id]; st != nil {
		return st, nil
	}
	o, err := s.dial(ctx, p, properties)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", p, redactError(err, secrets))
	}
	st := &Store{log: s.log.With(zap.Stringer("store", p)), ctx: s.ctx, place: p, objects: o, secrets: secrets, pace: s.pace}
	if p.kind != kindFolder && p.kind != kindMemory {
		st.hedge = newHedge()
	}
	s.opened[id] = st
	s.order = append(s.order, id)
	if len(s.order) > storesMax {
		s.forget()
	}
	return st, nil
}

// dial makes the client of a place.
func (s *Stores) dial(ctx context.Context, p place, properties map[string]string) (objects, error) {
	switch p.kind {
	case kindS3:
		return openS3(ctx, p, properties, s.Dial)
	case kindGCS:
		return openGCS(s.ctx, p, properties)
	case kindAzure:
		return openAzure(p, properties)
	case kindMemory:
		return openMemory(), nil
	default:
		return folders{}, nil
	}
}

// forget drops the oldest store that is no memory. It stays usable for those
// who hold it; its idle connections end by themselves.
func (s *Stores) forget() {
	i := slices.IndexFunc(s.order, func(id [sha256.Size]byte) bool { return s.opened[id].place.kind != kindMemory })
	if i >= 0 {
		delete(s.opened, s.order[i])
		s.order = slices.Delete(s.order, i, i+1)
	}
}

// Close ends all requests and closes every store.
func (s *Stores) Close() error {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, st := range s.opened {
		errs = append(errs, st.objects.close())
	}
	clear(s.opened)
	s.order = nil
	return errors.Join(errs...)
}

// storeID tells places and clients apart. Only properties that concern stores
// count.
func storeID(p place, properties map[string]string) [sha256.Size]byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %q", p.kind, p.authority)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		if p.reads(key) {
			fmt.Fprintf(&b, " %q=%q", key, properties[key])
		}
	}
	return sha256.Sum256([]byte(b.String()))
}

// Store writes and reads the objects of one bucket, container or file system.
// Objects are only ever created, never replaced, and a write that succeeded is
// durable and whole.
//
// Names are full locations ("s3://lake/db/t/data/x.parquet"); the object's key
// is their text after the bucket, byte for byte. A location of another bucket is
// refused. It is safe for concurrent use and implements iceberg-go's io.IO,
// io.ReadFileIO and io.WriteFileIO.
type Store struct {
	log     *zap.Logger
	ctx     context.Context
	place   place
	objects objects
	secrets []string // values that no error and no log may show
	pace    pace
	hedge   *hedge // nil where requests don't go astray
}

// PutNew stores body as a new object and returns its location, which is what
// name returned for the attempt that succeeded. Each attempt (0, 1, …) needs
// another name: an attempt without an answer may still come to life later, and
// must not be mistaken for the one that counts. An upload that takes much longer
// than usual gets a second one beside it; name is never called twice at once.
//
// It is patient: throttling, outages and time-outs are retried until ctx ends.
// Answers that a person must act on (no rights, no bucket, disk full) are
// retried for some seconds and then returned. body is only read, and by nobody
// after the return.
func (s *Store) PutNew(ctx context.Context, name func(attempt int) string, body []byte) (string, error) {
	var naming sync.Mutex
	attempts := 0
	upload := func(ctx context.Context) (string, error) {
		var location string
		err := s.retry(ctx, "put", func(int) string {
			naming.Lock()
			defer naming.Unlock()
			location = name(attempts)
			attempts++
			return location
		}, len(body), func(ctx context.Context, key string, alive func()) error {
			err := s.objects.create(ctx, key, body, contentType(key), alive)
			if errors.Is(err, fs.ErrExist) {
				err = fmt.Errorf("%w: %w", errTaken, err)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		return location, nil
	}
	if s.hedge == nil {
		return upload(ctx)
	}
	failing := func() bool {
		naming.Lock()
		defer naming.Unlock()
		return attempts > 1
	}
	return s.hedge.run(ctx, len(body), failing, upload)
}

// Delete deletes an object. It is no error if there is none.
func (s *Store) Delete(ctx context.Context, location string) error {
	err := s.retry(ctx, "delete", always(location), 0, func(ctx context.Context, key string, _ func()) error {
		return s.objects.remove(ctx, key)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// get reads a whole object.
func (s *Store) get(ctx context.Context, location string) (body []byte, err error) {
	err = s.retry(ctx, "get", always(location), 0, func(ctx context.Context, key string, alive func()) error {
		body, err = s.objects.read(ctx, key, alive)
		return err
	})
	return body, err
}

// put stores body under a fixed name. Where an attempt had no answer and a later
// one finds the object there, the object is ours if it is the same.
func (s *Store) put(ctx context.Context, location string, body []byte) error {
	unanswered := false
	return s.retry(ctx, "put", always(location), len(body), func(ctx context.Context, key string, alive func()) error {
		err := s.objects.create(ctx, key, body, contentType(key), alive)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			unanswered = unanswered || err != nil
			return err
		}
		if !unanswered {
			return err
		}
		there, readErr := s.objects.read(ctx, key, alive)
		if readErr != nil {
			return readErr
		}
		if string(there) != string(body) {
			return err
		}
		return nil
	})
}

// always names the same object at each attempt.
func always(location string) func(int) string { return func(int) string { return location } }

// contentType goes by the end of the key.
func contentType(key string) string {
	switch {
	case strings.HasSuffix(key, ".parquet"):
		return "application/vnd.apache.parquet"
	case strings.HasSuffix(key, ".avro"):
		return "application/avro"
	case strings.HasSuffix(key, ".json") && !strings.HasSuffix(key, ".gz.metadata.json"):
		return "application/json"
	}
	return "application/octet-stream"
}

// pace is how long a Store waits for what.
type pace struct {
	waitFirst, waitMax time.Duration   // between attempts; doubled each time, with jitter
	hopeless           []time.Duration // between attempts after answers that a person must act on; then it gives up
	stall              time.Duration   // without any progress an attempt is given up; doubled each time
	stallMax           time.Duration
	unasked            time.Duration // patience of calls that have no context
}

func defaultPace() pace {
	return pace{
		waitFirst: 100 * time.Millisecond,
		waitMax:   15 * time.Second,
		hopeless:  []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 5 * time.Second},
		stall:     10 * time.Second,
		stallMax:  5 * time.Minute,
		unasked:   40 * time.Second,
	}
}
