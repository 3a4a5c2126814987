package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"sync"

	icebergio "github.com/apache/iceberg-go/io"
)

// iceberg-go finds the IO of a location by its scheme, in one registry a
// process. Its own factories forget fsync, build a client twice a commit and
// keep the first caller's context. We put ours in their place: it leads to the
// OpenStore of the Catalog that asks, which it knows by a property.
//
// This is the one piece of process-wide state in the package, because the
// registry is one.
var doors = struct {
	sync.Mutex
	last       int
	open       map[string]OpenStore
	registered bool
}{open: map[string]OpenStore{}}

// doorKey is the property that names the Catalog's OpenStore.
const doorKey = "router.door"

var schemes = []string{"", "file", "mem", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs"}

// addDoor makes open reachable for iceberg-go under the returned name.
func addDoor(open OpenStore) (name string, remove func() error) {
	doors.Lock()
	defer doors.Unlock()
	if !doors.registered {
		for _, s := range schemes {
			icebergio.Unregister(s)
			icebergio.Register(s, enter)
		}
		doors.registered = true
	}
	doors.last++
	name = strconv.Itoa(doors.last)
	doors.open[name] = open
	return name, func() error {
		doors.Lock()
		defer doors.Unlock()
		delete(doors.open, name)
		return nil
	}
}

// enter is the factory that iceberg-go calls.
func enter(ctx context.Context, location *url.URL, properties map[string]string) (icebergio.IO, error) {
	doors.Lock()
	open := doors.open[properties[doorKey]]
	doors.Unlock()
	if _, named := properties[doorKey]; !named && (location.Scheme == "" || location.Scheme == "file") {
		return icebergio.LocalFS{}, nil // somebody uses iceberg-go without a Catalog of ours
	}
	if open == nil {
		return nil, fmt.Errorf("open store of %s: no catalog is open for it", location.Redacted())
	}
	own := maps.Clone(properties)
	delete(own, doorKey)
	// The IO outlives the call that made it.
	store, err := open(context.WithoutCancel(ctx), location.String(), own)
	if err != nil {
		return nil, err
	}
	return &door{IO: store, properties: own}, nil
}

// door is what iceberg-go's catalogs get for a store.
type door struct {
	icebergio.IO
	properties map[string]string
}

var (
	_ icebergio.ReadFileIO  = (*door)(nil)
	_ icebergio.WriteFileIO = (*door)(nil)
)

// Remove does nothing: a catalog client removes metadata files after a commit
// of which it only thinks that it failed. Whatever is left over is an orphan.
func (d *door) Remove(string) error { return nil }

func (d *door) ReadFile(name string) ([]byte, error) { return readFile(d.IO, name) }

func (d *door) Create(name string) (icebergio.FileWriter, error) {
	w, ok := d.IO.(icebergio.WriteFileIO)
	if !ok {
		return nil, fmt.Errorf("create %s: the store is read only", name)
	}
	return w.Create(name)
}

func (d *door) WriteFile(name string, body []byte) error { return writeFile(d.IO, name, body) }

// reach is an IO that reads from whichever store a location lies in.
type reach struct {
	ctx   context.Context
	state *state
}

func (r *reach) Open(name string) (icebergio.File, error) {
	store, err := r.state.in(r.ctx, name)
	if err != nil {
		return nil, err
	}
	return store.Open(name)
}

func (r *reach) Remove(name string) error { return fmt.Errorf("remove %s: opened for reading", name) }

// readFile reads a whole object.
func readFile(store icebergio.IO, name string) (body []byte, err error) {
	if r, ok := store.(icebergio.ReadFileIO); ok {
		return r.ReadFile(name)
	}
	f, err := store.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	body = make([]byte, info.Size())
	_, err = f.ReadAt(body, 0)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return body, nil
}

// writeFile creates an object.
func writeFile(store icebergio.IO, name string, body []byte) error {
	w, ok := store.(icebergio.WriteFileIO)
	if !ok {
		return fmt.Errorf("create %s: the store is read only", name)
	}
	return w.WriteFile(name, body)
}
