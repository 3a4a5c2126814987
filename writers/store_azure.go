package writers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	icebergio "github.com/apache/iceberg-go/io"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

// azureObjects is a container of Azure Blob Storage or Data Lake Storage. It
// uses the client beneath the blob layer: that layer's own writer copies every
// body into block buffers, and it rewrites some keys.
type azureObjects struct {
	bucket    *blob.Bucket
	container *container.Client
}

// Names of properties that iceberg-go has no constant for; they are PyIceberg's.
const (
	adlsTenantID     = "adls.tenant-id"
	adlsClientSecret = "adls.client-secret"
)

// openAzure makes the client of a container. It does no I/O.
func openAzure(p place, properties map[string]string) (objects, error) {
	name, host, _ := strings.Cut(p.authority, "@")
	account, _, _ := strings.Cut(host, ".")
	client, err := azureContainer(name, account, host, properties)
	if err != nil {
		return nil, err
	}
	bucket, err := azureblob.OpenBucket(context.Background(), client, nil)
	if err != nil {
		return nil, err
	}
	a := &azureObjects{bucket: bucket}
	if !bucket.As(&a.container) {
		return nil, errors.New("the blob layer gives no Azure client")
	}
	return a, nil
}

// azureContainer makes the SDK's client with the credentials that are given, or
// else with those of the machine.
func azureContainer(name, account, host string, properties map[string]string) (*container.Client, error) {
	options := &container.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}} // Store has the patience
	service, err := azureService(account, host, properties)
	if err != nil {
		return nil, err
	}
	where := service.JoinPath(url.PathEscape(name))
	sas := cmp.Or(properties[icebergio.ADLSSasTokenPrefix+host], properties[icebergio.ADLSSasTokenPrefix+account])
	connection := cmp.Or(properties[icebergio.ADLSConnectionStringPrefix+account], properties[icebergio.ADLSConnectionStringPrefix+host])
	switch {
	case properties[icebergio.ADLSSharedKeyAccountName] != "":
		if properties[icebergio.ADLSSharedKeyAccountKey] == "" {
			return nil, fmt.Errorf("%s needs %s", icebergio.ADLSSharedKeyAccountName, icebergio.ADLSSharedKeyAccountKey)
		}
		key, err := container.NewSharedKeyCredential(properties[icebergio.ADLSSharedKeyAccountName], properties[icebergio.ADLSSharedKeyAccountKey])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", icebergio.ADLSSharedKeyAccountKey, err)
		}
		return container.NewClientWithSharedKeyCredential(where.String(), key, options)
	case sas != "":
		where.RawQuery = strings.TrimPrefix(sas, "?")
		return container.NewClientWithNoCredential(where.String(), options)
	case connection != "":
		return container.NewClientFromConnectionString(connection, name, options)
	}
	credential, err := azureIdentity(properties)
	if err != nil {
		return nil, err
	}
	return container.NewClient(where.String(), credential, options)
}

// azureService is the URL of the account's blob service. Data Lake hosts have a
// twin for blobs. adls.endpoint is a domain, or the whole URL where the account
// is a part of the path, as for emulators.
func azureService(account, host string, properties map[string]string) (*url.URL, error) {
	protocol := cmp.Or(properties[icebergio.ADLSProtocol], "https")
	endpoint := properties[icebergio.ADLSEndpoint]
	text := protocol + "://" + strings.Replace(host, ".dfs.", ".blob.", 1)
	if !strings.Contains(host, ".") {
		text = protocol + "://" + account + ".blob.core.windows.net"
	}
	if endpoint != "" {
		bare := endpoint
		if hostOnly, _, err := net.SplitHostPort(endpoint); err == nil {
			bare = hostOnly
		}
		switch {
		case strings.Contains(endpoint, "://"):
			text = endpoint
		case bare == "localhost" || net.ParseIP(bare) != nil:
			text = protocol + "://" + endpoint + "/" + account
		default:
			text = protocol + "://" + account + "." + endpoint
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s = %q: must be a domain or a URL", icebergio.ADLSEndpoint, redact(endpoint, nil))
	}
	return u, nil
}

// azureIdentity finds an identity: an application's, the machine's or whatever
// the SDK's chain has.
func azureIdentity(properties map[string]string) (azcore.TokenCredential, error) {
	id := properties[icebergio.ADLSClientID]
	if secret := properties[adlsClientSecret]; secret != "" {
		return azidentity.NewClientSecretCredential(properties[adlsTenantID], id, secret, nil)
	}
	managed, err := boolProperty(properties, icebergio.ADLSManagedIdentityEnabled, false)
	if err != nil {
		return nil, err
	}
	if managed {
		options := &azidentity.ManagedIdentityCredentialOptions{}
		if id != "" {
			options.ID = azidentity.ClientID(id)
		}
		return azidentity.NewManagedIdentityCredential(options)
	}
	return azidentity.NewDefaultAzureCredential(nil)
}

func (a *azureObjects) create(ctx context.Context, key string, body []byte, contentType string, alive func()) error {
	reader := &progress{body: body, alive: alive}
	defer reader.end()
	anyTag := azcore.ETagAny
	_, err := a.container.NewBlockBlobClient(key).Upload(ctx, reader, &blockblob.UploadOptions{
		HTTPHeaders:      &azblob.HTTPHeaders{BlobContentType: &contentType},
		AccessConditions: &azblob.AccessConditions{ModifiedAccessConditions: &azblob.ModifiedAccessConditions{IfNoneMatch: &anyTag}},
	})
	return azureError(err)
}

func (a *azureObjects) read(ctx context.Context, key string, alive func()) ([]byte, error) {
	out, err := a.container.NewBlobClient(key).DownloadStream(ctx, nil)
	if err != nil {
		return nil, azureError(err)
	}
	defer out.Body.Close()
	alive()
	size := int64(-1)
	if out.ContentLength != nil {
		size = *out.ContentLength
	}
	return readAll(out.Body, size, alive)
}

func (a *azureObjects) readPart(ctx context.Context, key string, at int64, to []byte, alive func()) error {
	out, err := a.container.NewBlobClient(key).DownloadStream(ctx, &azblob.DownloadStreamOptions{Range: azblob.HTTPRange{Offset: at, Count: int64(len(to))}})
	if err != nil {
		return azureError(err)
	}
	defer out.Body.Close()
	alive()
	if err := isPart(out.ContentRange, at); err != nil {
		return err
	}
	return readPart(out.Body, to, alive)
}

func (a *azureObjects) remove(ctx context.Context, key string) error {
	_, err := a.container.NewBlobClient(key).Delete(ctx, nil)
	return azureError(err)
}

func (a *azureObjects) close() error { return a.bucket.Close() }

// azureError recognises the states of an object.
func azureError(err error) error {
	switch {
	case err == nil:
		return nil
	case exists(err):
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	case absent(err):
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
