package sim

// sqlDefects are mistakes of the SQL catalog, of the clock and of the audit. What
// iceberg-go's catalog sends can't be changed here: its mistakes are planted where
// the statements arrive.
var sqlDefects = []defect{
	{"sql-update-without-where", "internal/sim/statements_test.go", [][2]string{ // on the old metadata location
		{"where != nil && where[1] != l.sql.at {", "!defective(\"sql-update-without-where\") && where != nil && where[1] != l.sql.at {"},
	}},
	{"sql-rows-affected-ignored", "internal/sim/statements_test.go", [][2]string{
		{"\t\t\treturn nil, \"UPDATE 0\", nil\n", "\t\t\tif defective(\"sql-rows-affected-ignored\") {\n\t\t\t\treturn nil, \"UPDATE 1\", nil\n\t\t\t}\n\t\t\treturn nil, \"UPDATE 0\", nil\n"},
	}},
	{"sql-lost-answer-is-failure", "catalog/io.go", [][2]string{ // and what was stored for it is removed
		{"func (d *door) Remove(string) error { return nil }", "func (d *door) Remove(name string) error {\n\tif defective(\"sql-lost-answer-is-failure\") {\n\t\treturn d.IO.Remove(name)\n\t}\n\treturn nil\n}"},
	}},
	{"clock-believed", "catalog/snapshot.go", [][2]string{
		{"\treturn max(last+1, now)\n", "\tif defective(\"clock-believed\") {\n\t\treturn now\n\t}\n\treturn max(last+1, now)\n"},
	}},
	{"audit-counts-nothing", "router/audit_judge.go", [][2]string{
		{"\tif at > w.next && len(w.cuts) > 0 {\n", "\tif defective(\"audit-counts-nothing\") {\n\t\theld = w.book.Rows\n\t}\n\tif at > w.next && len(w.cuts) > 0 {\n"},
	}},
	{"audit-takes-copies", "router/audit_hear.go", [][2]string{
		{"\tif first, seen := a.copies[o.File]; seen && first != f.Path {\n", "\tif first, seen := a.copies[o.File]; !defective(\"audit-takes-copies\") && seen && first != f.Path {\n"},
	}},
}
