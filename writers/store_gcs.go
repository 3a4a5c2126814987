package writers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"cloud.google.com/go/storage"
	icebergio "github.com/apache/iceberg-go/io"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// gcsObjects is a bucket of Google Cloud Storage. It uses the client beneath the
// blob layer, which rewrites some keys.
type gcsObjects struct {
	bucket *blob.Bucket
	handle *storage.BucketHandle
}

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_write"

// openGCS makes the client of a bucket. ctx lives as long as the store: tokens
// are fetched with it.
func openGCS(ctx context.Context, p place, properties map[string]string) (objects, error) {
	tokens, err := gcsTokens(ctx, properties)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConnsMax, idleConnsMax
	transport.WriteBufferSize = writeBufferBytes
	client := gcp.NewAnonymousHTTPClient(transport)
	if tokens != nil {
		if client, err = gcp.NewHTTPClient(transport, tokens); err != nil {
			return nil, err
		}
	}
	var options gcsblob.Options
	if endpoint := cmp.Or(properties[icebergio.GCSServiceHost], properties[icebergio.GCSEndpoint]); endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%s: must be a URL such as http://localhost:4443", icebergio.GCSServiceHost)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/storage/v1/"
		}
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(u.String()))
	}
	json, err := boolProperty(properties, icebergio.GCSUseJSONAPI, len(options.ClientOptions) > 0)
	if err != nil {
		return nil, err
	}
	if json {
		options.ClientOptions = append(options.ClientOptions, storage.WithJSONReads())
	}
	bucket, err := gcsblob.OpenBucket(ctx, client, p.authority, &options)
	if err != nil {
		return nil, err
	}
	var c *storage.Client
	if !bucket.As(&c) {
		return nil, errors.New("the blob layer gives no GCS client")
	}
	c.SetRetry(storage.WithPolicy(storage.RetryNever)) // Store has the patience
	return &gcsObjects{bucket: bucket, handle: c.Bucket(p.authority)}, nil
}

// gcsTokens finds credentials: none, a token, a key or what the machine has.
func gcsTokens(ctx context.Context, properties map[string]string) (oauth2.TokenSource, error) {
	anonymous, err := boolProperty(properties, icebergio.GCSNoAuth, false)
	if err != nil || anonymous {
		return nil, err
	}
	if text := properties[icebergio.GCSOAuthToken]; text != "" {
		token := &oauth2.Token{AccessToken: text}
		if at, err := strconv.ParseInt(properties[icebergio.GCSOAuthExpiresAt], 10, 64); err == nil {
			token.Expiry = time.UnixMilli(at)
		}
		return oauth2.StaticTokenSource(token), nil
	}
	key := []byte(properties[icebergio.GCSJSONKey])
	if path := properties[icebergio.GCSKeyPath]; len(key) == 0 && path != "" {
		if key, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", icebergio.GCSKeyPath, err)
		}
	}
	if len(key) > 0 {
		kind := google.CredentialsType(cmp.Or(properties[icebergio.GCSCredType], string(google.ServiceAccount)))
		found, err := google.CredentialsFromJSONWithType(ctx, key, kind, gcsScope)
		if err != nil {
			return nil, fmt.Errorf("read the GCS key as %s (%s names another kind): %w", kind, icebergio.GCSCredType, err)
		}
		return found.TokenSource, nil
	}
	found, err := gcp.DefaultCredentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("no credentials: give %s or %s, or %s = true for a public bucket: %w", icebergio.GCSKeyPath, icebergio.GCSOAuthToken, icebergio.GCSNoAuth, err)
	}
	return found.TokenSource, nil
}

func (g *gcsObjects) create(ctx context.Context, key string, body []byte, contentType string, alive func()) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	w := g.handle.Object(key).If(storage.Conditions{DoesNotExist: true}).NewWriter(ctx)
	w.ChunkSize = 0 // one request, without a buffer: Store repeats it whole
	w.ContentType = contentType
	w.CRC32C, w.SendCRC32C = crc32.Checksum(body, castagnoli), true
	reader := &progress{body: body, alive: alive}
	defer reader.end()
	if _, err := io.Copy(w, reader); err != nil {
		abort() // before Close, which would else keep a part of it
		return gcsError(errors.Join(err, w.Close()))
	}
	return gcsError(w.Close())
}

func (g *gcsObjects) read(ctx context.Context, key string, alive func()) ([]byte, error) {
	r, err := g.handle.Object(key).NewReader(ctx)
	if err != nil {
		return nil, gcsError(err)
	}
	defer r.Close()
	alive()
	return readAll(r, r.Attrs.Size, alive)
}

func (g *gcsObjects) readPart(ctx context.Context, key string, at int64, to []byte, alive func()) error {
	r, err := g.handle.Object(key).NewRangeReader(ctx, at, int64(len(to)))
	if err != nil {
		return gcsError(err)
	}
	defer r.Close()
	alive()
	return readPart(r, to, alive)
}

func (g *gcsObjects) remove(ctx context.Context, key string) error {
	return gcsError(g.handle.Object(key).Delete(ctx))
}

func (g *gcsObjects) close() error { return g.bucket.Close() }

// gcsError recognises the states of an object.
func gcsError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrObjectNotExist):
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case exists(err):
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}
