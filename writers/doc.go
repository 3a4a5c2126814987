// Package writers turns records into durable bytes: decode (payload → column
// batch), exchange (row → partition tuple), encode (batch → Parquet data file)
// and store (data file → object). For the way back it turns data files into rows
// again: scan (data file → JSON). It knows neither the catalog nor the router.
package writers
