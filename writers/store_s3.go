package writers

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// s3Objects is a bucket of S3 or of a server that speaks its protocol.
//
// It uses the client beneath the blob layer: that layer's own writer copies
// every body into part buffers, and it rewrites some keys.
type s3Objects struct {
	bucket   *blob.Bucket
	client   *s3.Client
	name     string
	checksum bool // send CRC32C
	sse      types.ServerSideEncryption
	sseKey   string
}

// Names of properties that iceberg-go has no constant for; they are Iceberg's.
const (
	s3PathStyle = "s3.path-style-access"
	s3Anonymous = "s3.anonymous"
	s3SSEType   = "s3.sse.type"
	s3SSEKey    = "s3.sse.key"
)

const (
	dialTimeout      = 10 * time.Second
	idleConnsMax     = 256 // an upload for every bucket of a large table, several tables
	writeBufferBytes = 64 << 10
)

// openS3 makes the client of a bucket. It does no I/O, except that the
// environment and the profile files are read.
func openS3(ctx context.Context, p place, properties map[string]string, dial dialFunc) (objects, error) {
	conf, err := s3Config(ctx, properties, dial)
	if err != nil {
		return nil, err
	}
	endpoint := cmp.Or(properties[icebergio.S3EndpointURL], os.Getenv("AWS_S3_ENDPOINT"))
	ambient := cmp.Or(endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	pathStyle, err := s3UsePathStyle(ambient, properties)
	if err != nil {
		return nil, err
	}
	compat, err := boolProperty(properties, icebergio.S3CompatMode, false)
	if err != nil {
		return nil, err
	}
	if conf.Region == "" && ambient != "" {
		conf.Region = "us-east-1" // S3 look-alikes have no regions, and this is the one they accept
	}
	client := s3.NewFromConfig(conf, func(o *s3.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
		o.UsePathStyle = pathStyle
		o.Retryer = aws.NopRetryer{} // Store has the patience
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
	})
	bucket, err := s3blob.OpenBucket(ctx, client, p.authority, nil)
	if err != nil {
		return nil, err
	}
	s := &s3Objects{bucket: bucket, name: p.authority, checksum: !compat, sseKey: properties[s3SSEKey]}
	if !bucket.As(&s.client) {
		return nil, errors.New("the blob layer gives no S3 client")
	}
	switch properties[s3SSEType] {
	case "", "none":
	case "s3":
		s.sse = types.ServerSideEncryptionAes256
	case "kms":
		s.sse = types.ServerSideEncryptionAwsKms
	case "dsse-kms":
		s.sse = types.ServerSideEncryptionAwsKmsDsse
	default:
		return nil, fmt.Errorf("%s = %q: supported are none, s3, kms and dsse-kms", s3SSEType, properties[s3SSEType])
	}
	return s, nil
}

// s3Config is the SDK's configuration: keys, region and transport.
func s3Config(ctx context.Context, properties map[string]string, dial dialFunc) (aws.Config, error) {
	transport, err := s3Transport(properties, dial)
	if err != nil {
		return aws.Config{}, err
	}
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(transport)}
	if region := cmp.Or(properties[icebergio.S3Region], properties[icebergio.S3ClientRegion]); region != "" {
		options = append(options, config.WithRegion(region))
	}
	id, secret, token := properties[icebergio.S3AccessKeyID], properties[icebergio.S3SecretAccessKey], properties[icebergio.S3SessionToken]
	anonymous, err := boolProperty(properties, s3Anonymous, false)
	switch {
	case err != nil:
		return aws.Config{}, err
	case anonymous:
		options = append(options, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	case id != "" && secret != "":
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(id, secret, token)))
	case id != "" || secret != "" || token != "":
		return aws.Config{}, fmt.Errorf("%s and %s must be given together", icebergio.S3AccessKeyID, icebergio.S3SecretAccessKey)
	}
	options = append(options, config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
		// Away from EC2 nobody answers there, and the SDK would ask for a minute.
		o.Client = imds.New(imds.Options{Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = 2, time.Second
		})})
	}))
	return config.LoadDefaultConfig(ctx, options...)
}

// dialFunc makes a connection; nil is the machine's network.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// s3Transport is the HTTP client.
func s3Transport(properties map[string]string, custom dialFunc) (*awshttp.BuildableClient, error) {
	dial := dialTimeout
	if text := properties[icebergio.S3ConnectTimeout]; text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		dial = time.Duration(seconds * float64(time.Second))
		if err != nil {
			dial, err = time.ParseDuration(text)
		}
		if err != nil || dial <= 0 {
			return nil, fmt.Errorf("%s = %q: must be seconds or a duration such as 5s", icebergio.S3ConnectTimeout, text)
		}
	}
	var proxy *url.URL
	if text := properties[icebergio.S3ProxyURI]; text != "" {
		var err error
		if proxy, err = url.Parse(text); err != nil || proxy.Host == "" {
			return nil, fmt.Errorf("%s: must be a URL such as http://host:3128", icebergio.S3ProxyURI) // its text may have a password
		}
	}
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dial }).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnsMax, idleConnsMax
			t.WriteBufferSize = writeBufferBytes
			if custom != nil {
				t.DialContext = custom
			}
			if proxy != nil {
				t.Proxy = http.ProxyURL(proxy)
			}
		}), nil
}

// s3UsePathStyle: a custom endpoint means path style, for few of them have a
// DNS name for each bucket, unless a property says otherwise.
func s3UsePathStyle(endpoint string, properties map[string]string) (bool, error) {
	byDefault := endpoint != ""
	virtual, err := boolProperty(properties, icebergio.S3ForceVirtualAddressing, !byDefault)
	if err != nil {
		return false, err
	}
	return boolProperty(properties, s3PathStyle, !virtual)
}

// boolProperty reads a property that is true or false.
func boolProperty(properties map[string]string, name string, absent bool) (bool, error) {
	text := properties[name]
	if text == "" {
		return absent, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s = %q: must be true or false", name, text)
	}
	return value, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *s3Objects) create(ctx context.Context, key string, body []byte, contentType string, alive func()) error {
	reader := &progress{body: body, alive: alive}
	defer reader.end()
	in := &s3.PutObjectInput{
		Bucket: &s.name, Key: &key, Body: reader,
		ContentLength: aws.Int64(int64(len(body))), ContentType: &contentType,
		IfNoneMatch: aws.String("*"),
	}
	if s.checksum {
		// A header, not a trailer, which many servers refuse.
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli))
		in.ChecksumCRC32C = aws.String(base64.StdEncoding.EncodeToString(sum))
	}
	if s.sse != "" {
		in.ServerSideEncryption = s.sse
		if s.sseKey != "" && s.sse != types.ServerSideEncryptionAes256 {
			in.SSEKMSKeyId = &s.sseKey
		}
	}
	_, err := s.client.PutObject(ctx, in, s3.WithAPIOptions(signer.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	if err != nil && exists(err) {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func (s *s3Objects) read(ctx context.Context, key string, alive func()) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.name, Key: &key})
	if err != nil {
		if absent(err) {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return nil, err
	}
	defer out.Body.Close()
	alive()
	size := int64(-1)
	if out.ContentLength != nil {
		size = *out.ContentLength
	}
	return readAll(out.Body, size, alive)
}

func (s *s3Objects) readPart(ctx context.Context, key string, at int64, to []byte, alive func()) error {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.name, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", at, at+int64(len(to))-1))})
	if err != nil {
		if absent(err) {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return err
	}
	defer out.Body.Close()
	alive()
	if err := isPart(out.ContentRange, at); err != nil {
		return err
	}
	return readPart(out.Body, to, alive)
}

func (s *s3Objects) remove(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.name, Key: &key})
	if err != nil && absent(err) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

func (s *s3Objects) close() error { return s.bucket.Close() }
