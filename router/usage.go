package router

// UsageError reports a command line that can't be understood: an unknown flag,
// a value out of bounds, a template with a mistake. The program exits with 2.
type UsageError struct{ Err error }

// Error returns the text of the error within.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error within.
func (e *UsageError) Unwrap() error { return e.Err }
