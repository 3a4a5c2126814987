package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// head is what is remembered of the last snapshot that this Table committed,
// so that the next one doesn't read again what was just written.
type head struct {
	snapshot  int64
	manifests []iceberg.ManifestFile
	bodies    map[string]*carried // small manifests in the list, by location
}

// carried is a manifest's content in memory.
type carried struct{ body []byte }

// carriedBytesMax bounds the manifests kept in memory; a larger one is read again when it is merged.
const carriedBytesMax = 512 << 10

// manifestsOf returns the manifests of snapshot, newest first.
func (t *Table) manifestsOf(ctx context.Context, s *state, snapshot *table.Snapshot) ([]iceberg.ManifestFile, error) {
	if snapshot == nil {
		return nil, nil
	}
	if t.head.snapshot == snapshot.SnapshotID && t.head.manifests != nil {
		return t.head.manifests, nil
	}
	t.head = head{bodies: t.head.bodies} // manifests stay what they are, under whatever head
	if snapshot.ManifestList == "" {
		ms, err := snapshot.Manifests(s.store)
		if err != nil {
			return nil, fmt.Errorf("read manifests of snapshot %d: %w", snapshot.SnapshotID, err)
		}
		return ms, nil
	}
	body, err := s.read(ctx, snapshot.ManifestList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &unfitError{fmt.Errorf("table %s is damaged: the manifest list of its current snapshot %d, %s, is not there: restore the file, or roll the table back to a snapshot that is whole: %w", t.name, snapshot.SnapshotID, snapshot.ManifestList, err)}
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", snapshot.ManifestList, err)
	}
	ms, err := iceberg.ReadManifestList(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", snapshot.ManifestList, err)
	}
	return ms, nil
}

// remember keeps the head that was just committed.
func (t *Table) remember(st *staged) {
	h := head{snapshot: st.snapshot.SnapshotID, manifests: st.manifests, bodies: map[string]*carried{}}
	for _, m := range st.manifests {
		body := st.added[m.FilePath()]
		if body == nil {
			body = t.head.bodies[m.FilePath()]
		}
		if body != nil && len(body.body) <= carriedBytesMax {
			h.bodies[m.FilePath()] = body
		}
	}
	t.head, t.warm = h, true
}
