package writers

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// StoreError says which object could not be written, read or deleted, why, and
// what to do. It wraps fs.ErrNotExist, fs.ErrExist and the context's error where
// they are the reason. It shows no secret.
type StoreError struct {
	Verb     string // put, get or delete
	Location string
	Attempts int
	Remedy   string // a sentence for people, or ""
	Err      error
}

func (e *StoreError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.Verb, e.Location)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Remedy != "" {
		fmt.Fprintf(&b, " (%s)", e.Remedy)
	}
	return b.String()
}

// Unwrap returns the reason.
func (e *StoreError) Unwrap() error { return e.Err }

// errTaken is that the name of a new object is not new.
var errTaken = errors.New("the new name is taken")

// errorClass says how patient to be with an error.
type errorClass uint8

const (
	classPassing  errorClass = iota // an outage, throttling, anything unknown: go on
	classHopeless                   // an answer that a person must act on: a few times more, it may be a hiccup
	classFinal                      // the answer is known and stays
)

// verdict is what is known about an error.
type verdict struct {
	class  errorClass
	wait   time.Duration // that the server asked for
	remedy string
}

// retryAfterMax bounds what a server may ask for.
const retryAfterMax = time.Minute

// classify judges the error of one attempt.
func classify(err error) verdict {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errTaken):
		return verdict{class: classHopeless}
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return verdict{class: classFinal}
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid):
		return verdict{class: classHopeless, remedy: "the store's certificate is not trusted: add its authority to the system's certificates or name it in SSL_CERT_FILE"}
	}
	var token *oauth2.RetrieveError
	if errors.As(err, &token) && token.Response != nil {
		v := judgeAnswer(token.Response.StatusCode, "", token.Response.Header)
		if v.class == classHopeless {
			v.remedy = "check the credentials: no token is given for them"
		}
		return v
	}
	status, code, header := answerOf(err)
	if status != 0 || code != "" {
		return judgeAnswer(status, code, header)
	}
	if v, known := judgeSystem(err); known {
		return v
	}
	if remedy := requestRemedy(err); remedy != "" {
		return verdict{class: classHopeless, remedy: remedy}
	}
	if broken(err) {
		return verdict{remedy: "if it stays so, check that the store is up and that its endpoint is right: s3.endpoint, gcs.endpoint or adls.endpoint"}
	}
	return verdict{class: classHopeless} // nothing that time is known to heal
}

// broken reports whether the way to the store or back was interrupted.
func broken(err error) bool {
	var network net.Error
	var send *smithyhttp.RequestSendError
	var unread *smithy.DeserializationError
	return errors.Is(err, errStalled) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &network) || errors.As(err, &send) || errors.As(err, &unread)
}

// answerOf returns the HTTP status, the store's own code and the header of an
// answer that says no; zero if there was no answer.
func answerOf(err error) (status int, code string, header http.Header) {
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var aws *awshttp.ResponseError
	if errors.As(err, &aws) && aws.Response != nil {
		return aws.HTTPStatusCode(), code, aws.Response.Header
	}
	var azure *azcore.ResponseError
	if errors.As(err, &azure) {
		if azure.RawResponse != nil {
			header = azure.RawResponse.Header
		}
		return azure.StatusCode, azure.ErrorCode, header
	}
	var google *googleapi.Error
	if errors.As(err, &google) {
		if len(google.Errors) > 0 {
			code = google.Errors[0].Reason
		}
		return google.Code, code, google.Header
	}
	switch gcerrors.Code(err) { // stores without HTTP
	case gcerrors.NotFound:
		return http.StatusNotFound, code, nil
	case gcerrors.FailedPrecondition, gcerrors.AlreadyExists:
		return http.StatusPreconditionFailed, code, nil
	case gcerrors.PermissionDenied:
		return http.StatusForbidden, code, nil
	}
	return 0, code, nil
}

// exists and absent recognise the two answers that are the object's state.
func exists(err error) bool {
	status, code, _ := answerOf(err)
	return status == http.StatusPreconditionFailed || code == "PreconditionFailed" ||
		code == "BlobAlreadyExists" || code == "ConditionNotMet"
}

func absent(err error) bool {
	status, code, _ := answerOf(err)
	return code == "NoSuchKey" || code == "BlobNotFound" ||
		status == http.StatusNotFound && code != "NoSuchBucket" && code != "ContainerNotFound"
}

// judgeAnswer knows what the stores' codes mean; where there is none, the status
// decides.
func judgeAnswer(status int, code string, header http.Header) verdict {
	v := verdict{wait: retryAfter(header)}
	hopeless := func(remedy string) verdict { v.class, v.remedy = classHopeless, remedy; return v }
	switch code {
	case "NoSuchBucket", "ContainerNotFound":
		return hopeless("create the bucket, or correct its name in the location")
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthFailure", "AuthenticationFailed", "InvalidSecurity":
		return hopeless("check the access key and its secret")
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken":
		return hopeless("the credentials have expired: give new ones")
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "AuthorizationFailure", "AuthorizationPermissionMismatch", "InsufficientAccountPermissions", "forbidden":
		return hopeless("grant the right to read, create and delete objects there to these credentials")
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return hopeless("set s3.region to the region of the bucket" + regionOf(header))
	case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull":
		return hopeless("the store is full: make room")
	case "EntityTooLarge", "RequestBodyTooLarge":
		return hopeless("the store refuses objects of this size: write smaller files")
	case "ExistingObjectIsDirectory", "ObjectParentIsFile", "KeyTooLongError", "KeyTooLong", "InvalidObjectName":
		return hopeless("the store refuses this name: choose another location for the table")
	case "RequestTimeTooSkewed":
		return hopeless("set this machine's clock")
	case "RequestTimeout", "SlowDown", "Throttling", "ConditionalRequestConflict", "OperationAborted", "BadDigest", "RequestTimeTooShort":
		return v
	case "XAmzContentSHA256Mismatch", "InvalidDigest":
		return v // the body was damaged on the way
	}
	switch {
	case status == http.StatusMovedPermanently:
		return hopeless("set s3.region to the region of the bucket" + regionOf(header))
	case status == http.StatusUnauthorized:
		return hopeless("check the credentials")
	case status == http.StatusForbidden:
		return hopeless("grant the right to read, create and delete objects there to these credentials")
	case status == http.StatusNotFound:
		return hopeless("check the endpoint and the bucket")
	case status == http.StatusInsufficientStorage:
		return hopeless("the store is full: make room")
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500:
		return v
	case status >= 400:
		return hopeless("the store refuses the request")
	}
	return v
}

// regionOf names the region that an answer gives away.
func regionOf(header http.Header) string {
	if region := header.Get("X-Amz-Bucket-Region"); region != "" {
		return ", which is " + region
	}
	return ""
}

// retryAfter reads the header of that name, in both of its forms.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	wait := time.Duration(0)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds < retryAfterMax.Seconds() {
		wait = time.Duration(seconds * float64(time.Second))
	} else if err == nil {
		wait = retryAfterMax
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	wait = min(max(wait, 0), retryAfterMax)
	return wait + jitter(wait/2) // the others were told the same
}

// judgeSystem knows the system's errors on files.
func judgeSystem(err error) (verdict, bool) {
	remedies := map[syscall.Errno]string{
		syscall.ENOSPC:       "the disk is full: make room",
		syscall.EDQUOT:       "the disk quota is used up: make room or raise it",
		syscall.EFBIG:        "the file system refuses files of this size: write smaller files",
		syscall.EROFS:        "the file system is mounted read-only",
		syscall.EACCES:       "grant the right to write there to the user that runs the program",
		syscall.EPERM:        "grant the right to write there to the user that runs the program",
		syscall.ENOTDIR:      "a part of the path is a file, not a folder",
		syscall.EISDIR:       "the path is a folder, not a file",
		syscall.ENAMETOOLONG: "the path is too long: choose another location for the table",
		syscall.ELOOP:        "the path has a circle of symbolic links",
		syscall.EIO:          "the disk is faulty: look at the system's log",
		syscall.EINVAL:       "the file system refuses this name",
		syscall.ENOTSUP:      "the file system can't create a file without replacing one: choose another location",
	}
	var system syscall.Errno
	var network *net.OpError // may carry the same numbers, with other meanings
	if !errors.As(err, &system) || errors.As(err, &network) {
		return verdict{}, false
	}
	if remedy, known := remedies[system]; known {
		return verdict{class: classHopeless, remedy: remedy}, true
	}
	return verdict{}, true
}

// requestRemedy recognises requests that were never sent, for want of keys, of a
// region or of a server that speaks the protocol.
func requestRemedy(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "get credentials") || strings.Contains(text, "get identity"):
		return "give s3.access-key-id and s3.secret-access-key, or run where the environment, a profile or the machine's role has credentials"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "the endpoint speaks http, not https: correct it"
	case strings.Contains(text, "malformed HTTP") || strings.Contains(text, "unsupported protocol scheme"):
		return "check the endpoint: it must be the http or https URL of the store"
	case strings.Contains(text, "Missing Region"):
		return "set s3.region to the region of the bucket"
	case strings.Contains(text, "DefaultAzureCredential") || strings.Contains(text, "ManagedIdentityCredential"):
		return "give adls.sas-token, adls.connection-string or adls.auth.shared-key.account.*, or run where the machine has an identity"
	}
	return ""
}
