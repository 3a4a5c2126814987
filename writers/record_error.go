package writers

// Reason says why a record can't become a row. The set is bounded, so that it
// can be a metric label and a header of a dead letter.
type Reason string

// Every reason there is.
const (
	ReasonSyntax    Reason = "syntax"        // not the format that was configured
	ReasonUTF8      Reason = "utf8"          // a string that is not UTF-8
	ReasonDuplicate Reason = "duplicate_key" // one field twice
	ReasonUnknown   Reason = "unknown_field" // a field that no column has, where that is refused
	ReasonType      Reason = "type"          // a value of another type than the column's
	ReasonRange     Reason = "range"         // a value that the column's type can't hold exactly
	ReasonRequired  Reason = "required"      // no value for a required column
	ReasonDepth     Reason = "depth"         // nested too deep
	ReasonSize      Reason = "size"          // larger than a record may be
	ReasonPartition Reason = "partition"     // a value that no partition can hold
)

// RecordError says why one record is refused. The other records of its batch
// are not concerned.
type RecordError struct {
	Reason Reason
	Field  string // dotted column path, or "" for the record as a whole
	Detail string // a sentence for people; quotes at most 40 bytes of the value
}

// Error names the reason, the column and the detail.
func (e *RecordError) Error() string {
	if e.Field == "" {
		return string(e.Reason) + ": " + e.Detail
	}
	return string(e.Reason) + ": column " + e.Field + ": " + e.Detail
}
