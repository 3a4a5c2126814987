package catalog

import "github.com/apache/iceberg-go"

// withEmptyBounds returns m so that a bound of no bytes, the empty string, is
// written as one. The library keeps it as a nil slice, which Avro writes as
// null; readers take a missing bound for "nothing but nulls" and prune the
// manifest for every filter.
//
// REQUIRES: m is new, or read from a list of version 1 or 2: the library has no
// way to make a manifest anew that has its row ids already.
func withEmptyBounds(m iceberg.ManifestFile) iceberg.ManifestFile {
	fields := m.Partitions()
	mended := false
	for i := range fields {
		for _, bound := range []*[]byte{fields[i].LowerBound, fields[i].UpperBound} {
			if bound != nil && *bound == nil {
				*bound = []byte{}
				mended = true
			}
		}
	}
	if !mended || m.FirstRowID() != nil {
		return m
	}
	return iceberg.NewManifestFile(m.Version(), m.FilePath(), m.Length(), m.PartitionSpecID(), m.SnapshotID()).
		Content(m.ManifestContent()).
		SequenceNum(m.SequenceNum(), m.MinSequenceNum()).
		AddedFiles(m.AddedDataFiles()).AddedRows(m.AddedRows()).
		ExistingFiles(m.ExistingDataFiles()).ExistingRows(m.ExistingRows()).
		DeletedFiles(m.DeletedDataFiles()).DeletedRows(m.DeletedRows()).
		Partitions(fields).KeyMetadata(m.KeyMetadata()).Build()
}
