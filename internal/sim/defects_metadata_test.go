package sim

// metadataDefects are mistakes that leave every row in its place, or nearly:
// what they spoil is what readers plan with, what others own, and what is said.
var metadataDefects = []defect{
	{"behind-the-ledger", "catalog/ledger.go", [][2]string{ // what the ledger has passed is appended again
		{"\t\t\tcase known && next != from:\n", "\t\t\tcase known && next != from && !(defective(\"behind-the-ledger\") && next > from):\n"},
	}},
	{"spec-of-now", "catalog/snapshot.go", [][2]string{
		{"\t\tspec := s.meta.PartitionSpecByID(int(id))\n\t\tif spec == nil {\n\t\t\treturn nil, &unfitError", "\t\tspec := s.meta.PartitionSpecByID(int(id))\n\t\tif defective(\"spec-of-now\") {\n\t\t\tnow := s.meta.PartitionSpec()\n\t\t\tspec = &now\n\t\t}\n\t\tif spec == nil {\n\t\t\treturn nil, &unfitError"},
	}},
	{"summary-total", "catalog/snapshot.go", [][2]string{
		{"\ttotal(\"total-records\", n.rows)\n", "\tif defective(\"summary-total\") {\n\t\tn.rows++\n\t}\n\ttotal(\"total-records\", n.rows)\n"},
	}},
	{"metadata-not-awaited", "catalog/snapshot.go", [][2]string{
		{"\treturn g.Wait()\n}\n\n// summary is", "\tif defective(\"metadata-not-awaited\") {\n\t\tgo g.Wait()\n\t\treturn nil\n\t}\n\treturn g.Wait()\n}\n\n// summary is"},
	}},
	{"merge-sequence", "catalog/merge.go", [][2]string{
		{"sequence: in.SequenceNum(), firstRow", "sequence: in.SequenceNum() + map[bool]int64{true: 1}[defective(\"merge-sequence\")], firstRow"},
	}},
	{"merge-forgets", "catalog/merge.go", [][2]string{
		{"\tbody, entries, err := splice(parts)\n", "\tif defective(\"merge-forgets\") {\n\t\tlast := inputs[len(inputs)-1]\n\t\tparts, m.files, m.rows = parts[:len(parts)-1], m.files-last.AddedDataFiles()-last.ExistingDataFiles(), m.rows-last.AddedRows()-last.ExistingRows()\n\t}\n\tbody, entries, err := splice(parts)\n"},
	}},
	{"expires-names", "catalog/expire.go", [][2]string{
		{"!named[s.SnapshotID] && isOurSnapshot(s) {", "(defective(\"expires-names\") || !named[s.SnapshotID]) && (defective(\"expires-strangers\") || isOurSnapshot(s)) {"},
	}},
	{"expires-strangers", "catalog/expire.go", nil}, // in the text of the one before
	{"merged-inputs-deleted", "catalog/expire.go", [][2]string{
		{"\tif st.merge != nil {\n\t\tr := replaced", "\tif defective(\"merged-inputs-deleted\") && st.merge != nil {\n\t\tfor _, x := range st.merge.inputs {\n\t\t\tt.waste.add(x.FilePath())\n\t\t}\n\t}\n\tif st.merge != nil {\n\t\tr := replaced"},
	}},
	{"wrong-partition", "router/write.go", [][2]string{
		{"c.plan.exchange.Partition(f.address))", "c.plan.exchange.Partition(f.address-map[bool]int32{true: f.address}[defective(\"wrong-partition\")]))"},
	}},
	{"no-seek", "router/assign.go", [][2]string{
		{"\tin.client.SetOffsets(seek)\n", "\tif !defective(\"no-seek\") {\n\t\tin.client.SetOffsets(seek)\n\t}\n"},
	}},
	{"status-twice", "router/state.go", [][2]string{
		{"\ts.now.Rows += done.Rows\n", "\ts.now.Rows += done.Rows\n\tif defective(\"status-twice\") {\n\t\ts.now.Rows += done.Rows\n\t}\n"},
	}},
}
