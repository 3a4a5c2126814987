// Package catalog keeps the table: it opens the catalog, makes the table when
// it is missing, and commits appends to it as compare-and-swap on the ledger.
package catalog
