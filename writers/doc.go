// Package writers turns records into durable bytes: decode (payload → column
// batch), exchange (row → partition tuple), encode (batch → Parquet data file)
// and store (data file → object). It knows neither the catalog nor the router.
package writers
