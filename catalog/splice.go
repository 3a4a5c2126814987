package catalog

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// splice makes one manifest of several without decoding their entries.
//
// An entry that moves from one manifest to another changes in its first four
// fields only: it becomes EXISTING, and what it inherited from its manifest
// (snapshot id, sequence numbers, on v3 the first row id) is written down. The
// data_file record, by far the most of it, is copied as bytes. That is what lets
// a table keep few manifests without a commit ever stalling: decoding and
// encoding again costs five times as much (BenchmarkSplice).
//
// Source: Avro 1.12 specification, "Object Container Files" and "Binary Encoding";
// Iceberg spec, "Manifests", "Sequence Number Inheritance", "First Row ID Inheritance".
func splice(parts []splicePart) (body []byte, entries int, err error) {
	var out *containerWriter
	var schema []byte
	for _, p := range parts {
		c, err := openContainer(p.body)
		if err != nil {
			return nil, 0, err
		}
		if out == nil {
			schema = c.metadata["avro.schema"]
			if out, err = newContainerWriter(c.metadata); err != nil {
				return nil, 0, err
			}
		} else if !bytes.Equal(schema, c.metadata["avro.schema"]) {
			return nil, 0, errors.New("manifests with different Avro schemas")
		}
		shape, err := entryShape(schema)
		if err != nil {
			return nil, 0, err
		}
		n, err := shape.copy(out, c, p)
		if err != nil {
			return nil, 0, err
		}
		entries += n
	}
	if out == nil {
		return nil, 0, errors.New("nothing to splice")
	}
	body, err = out.close()
	return body, entries, err
}

// splicePart is a manifest and what its entries inherit from the manifest list.
type splicePart struct {
	body     []byte
	snapshot int64
	sequence int64
	firstRow *int64 // v3
}

// entryLayout is a manifest entry as its Avro schema lays it out.
type entryLayout struct {
	fields     []avroType // of manifest_entry
	status     int        // indexes into fields
	snapshot   int
	sequences  []int // sequence_number and file_sequence_number; none on v1
	file       int
	fileFields []avroType // of data_file
	rows       int        // record_count in fileFields
	firstRow   int        // first_row_id in fileFields, or -1
}

// entryShape reads the layout from the schema in a manifest's header.
func entryShape(schema []byte) (*entryLayout, error) {
	root, err := parseAvro(schema)
	if err != nil {
		return nil, err
	}
	e := &entryLayout{fields: root.parts, status: slices.Index(root.names, "status"), snapshot: slices.Index(root.names, "snapshot_id"), file: slices.Index(root.names, "data_file")}
	for _, name := range []string{"sequence_number", "file_sequence_number"} {
		if i := slices.Index(root.names, name); i >= 0 {
			e.sequences = append(e.sequences, i)
		}
	}
	if root.kind != avroRecord || e.status < 0 || e.snapshot < 0 || e.file < 0 || root.parts[e.file].kind != avroRecord {
		return nil, errors.New("not a manifest's Avro schema")
	}
	f := root.parts[e.file]
	e.fileFields, e.rows, e.firstRow = f.parts, slices.Index(f.names, "record_count"), slices.Index(f.names, "first_row_id")
	if e.rows < 0 {
		return nil, errors.New("a data_file without record_count")
	}
	return e, nil
}

const (
	statusExisting = 0
	statusDeleted  = 2
)

// copy appends all entries of c to out.
func (e *entryLayout) copy(out *containerWriter, c *container, p splicePart) (n int, err error) {
	next := p.firstRow
	if next != nil {
		own := *next
		next = &own
	}
	for {
		block, count, err := c.next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		r := &avroReader{data: block}
		for range count {
			e.entry(out, r, p, next)
			if r.err != nil {
				return n, r.err
			}
			n++
			if err := out.endEntry(); err != nil {
				return n, err
			}
		}
		if len(r.data) != r.pos {
			return n, errors.New("bytes are left over in an Avro block")
		}
	}
}

// entry copies one entry and makes it EXISTING.
func (e *entryLayout) entry(out *containerWriter, r *avroReader, p splicePart, nextRow *int64) {
	for i, t := range e.fields {
		switch {
		case i == e.status:
			if r.long() == statusDeleted {
				r.fail(errors.New("a deleted entry in a manifest that counts none"))
			}
			out.long(statusExisting)
		case i == e.snapshot:
			out.nullableLong(t, r, p.snapshot)
		case slices.Contains(e.sequences, i):
			out.nullableLong(t, r, p.sequence)
		case i == e.file && nextRow != nil && e.firstRow >= 0:
			e.dataFile(out, r, nextRow)
		default:
			out.copy(r, t)
		}
	}
}

// dataFile copies a data_file and writes its first row id down (v3).
func (e *entryLayout) dataFile(out *containerWriter, r *avroReader, nextRow *int64) {
	var rows int64
	for i, t := range e.fileFields {
		switch i {
		case e.rows:
			rows = r.long()
			out.long(rows)
		case e.firstRow:
			if out.nullableLong(t, r, *nextRow) {
				*nextRow += rows
			}
		default:
			out.copy(r, t)
		}
	}
}
