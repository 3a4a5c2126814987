package writers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeCloud is an object server in memory, in the dialect of answer.
type fakeCloud struct {
	t      testing.TB
	answer func(c *fakeCloud, w http.ResponseWriter, r *http.Request)
	fault  func(n int, w http.ResponseWriter, r *http.Request) bool

	planted string // a secret that errors quote

	mu      sync.Mutex
	n       int
	objects map[string][]byte
}

func newFakeCloud(t testing.TB, answer func(*fakeCloud, http.ResponseWriter, *http.Request)) (*fakeCloud, string) {
	c := &fakeCloud{t: t, answer: answer, objects: map[string][]byte{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n++
		if c.fault == nil || !c.fault(c.n-1, w, r) {
			c.answer(c, w, r)
		}
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

// answerGCS speaks as much of the JSON API as a store needs.
func answerGCS(c *fakeCloud, w http.ResponseWriter, r *http.Request) {
	fail := func(status int, reason string) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": reason + " " + plantedToken, "errors": []any{map[string]any{"reason": reason}}}})
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+plantedToken {
		c.t.Errorf("authorization %q", got)
	}
	if rest, ok := strings.CutPrefix(r.URL.Path, "/upload/storage/v1/b/bucket/o"); ok && rest == "" {
		_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || r.URL.Query().Get("ifGenerationMatch") != "0" {
			c.t.Errorf("upload %s: %v", r.URL, err)
		}
		parts := multipart.NewReader(r.Body, params["boundary"])
		var meta struct{ Name, Crc32c, ContentType string }
		first, err := parts.NextPart()
		if err == nil {
			err = json.NewDecoder(first).Decode(&meta)
		}
		second, err2 := parts.NextPart()
		if err != nil || err2 != nil {
			c.t.Errorf("upload: %v, %v", err, err2)
			return
		}
		body, err := io.ReadAll(second)
		if err != nil {
			return
		}
		if meta.Crc32c == "" || meta.ContentType == "" {
			c.t.Errorf("upload of %+v", meta)
		}
		if _, taken := c.objects[meta.Name]; taken {
			fail(412, "conditionNotMet")
			return
		}
		c.objects[meta.Name] = body
		json.NewEncoder(w).Encode(map[string]any{"name": meta.Name, "bucket": "bucket", "size": fmt.Sprint(len(body)), "crc32c": meta.Crc32c, "generation": "1"})
		return
	}
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/storage/v1/b/bucket/o/"))
	body, there := c.objects[name]
	switch {
	case err != nil:
		c.t.Error(err)
	case !there:
		fail(404, "notFound")
	case r.Method == http.MethodDelete:
		delete(c.objects, name)
		w.WriteHeader(204)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

func TestStoreFakeGCS(t *testing.T) {
	c, address := newFakeCloud(t, answerGCS)
	st, logs := openStore(t, "gs://bucket", map[string]string{"gcs.service.host": address, "gcs.oauth2.token": plantedToken})
	conform(t, st, "gs://bucket/root")
	if logs.Len() == 0 { // taken names
		t.Error("no retry was logged")
	}
	c.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n < 3 {
			w.WriteHeader([]int{503, 429, 502}[n])
			fmt.Fprint(w, plantedToken)
		}
		return n < 3
	}
	c.n = 0
	if location, err := st.PutNew(t.Context(), named("gs://bucket/f"), []byte("x")); err != nil || location != "gs://bucket/f/3.parquet" {
		t.Errorf("%s, %v", location, err)
	}
	c.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(403)
		fmt.Fprint(w, plantedToken)
		return true
	}
	_, err := st.PutNew(t.Context(), named("gs://bucket/f"), []byte("x"))
	var e *StoreError
	if !errors.As(err, &e) || !strings.Contains(e.Remedy, "grant the right") || e.Attempts != 5 {
		t.Errorf("%v", err)
	}
	noSecrets(t, fmt.Sprint(err, logs.All()))
}

// answerAzure speaks as much of the Blob service as a store needs.
func answerAzure(c *fakeCloud, w http.ResponseWriter, r *http.Request) {
	fail := func(status int, code string) {
		w.Header().Set("x-ms-error-code", code)
		w.WriteHeader(status)
		fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code, c.planted)
	}
	key, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/account/container/"))
	if err != nil {
		c.t.Error(err)
	}
	if r.URL.Query().Get("sig") != plantedToken && !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey account:") {
		c.t.Errorf("no credentials: %s %v", r.URL, r.Header)
	}
	body, there := c.objects[key]
	switch {
	case r.Method == http.MethodPut:
		if r.Header.Get("If-None-Match") != "*" || r.Header.Get("x-ms-blob-type") != "BlockBlob" || r.Header.Get("x-ms-blob-content-type") == "" {
			c.t.Errorf("PUT with %v", r.Header)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if there {
			fail(409, "BlobAlreadyExists")
			return
		}
		c.objects[key] = body
		w.WriteHeader(201)
	case !there:
		fail(404, "BlobNotFound")
	case r.Method == http.MethodDelete:
		delete(c.objects, key)
		w.WriteHeader(202)
	default:
		if part := r.Header.Get("x-ms-range"); part != "" {
			r.Header.Set("Range", part)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

func TestStoreFakeAzure(t *testing.T) {
	c, address := newFakeCloud(t, answerAzure)
	host := strings.TrimPrefix(address, "http://")
	key := base64.StdEncoding.EncodeToString([]byte(plantedSecret))
	sas := "?sv=2024-01-01&sp=rcwd&sig=" + url.QueryEscape(plantedToken)
	const root = "abfss://container@account.dfs.core.windows.net"
	for name, test := range map[string]struct {
		planted    string
		properties map[string]string
	}{
		"sas":        {plantedToken, map[string]string{"adls.sas-token.account.dfs.core.windows.net": sas, "adls.endpoint": host, "adls.protocol": "http"}},
		"key":        {key, map[string]string{"adls.auth.shared-key.account.name": "account", "adls.auth.shared-key.account.key": key, "adls.endpoint": address + "/account"}},
		"connection": {key, map[string]string{"adls.connection-string.account": "AccountName=account;AccountKey=" + key + ";BlobEndpoint=" + address + "/account"}},
	} {
		t.Run(name, func(t *testing.T) {
			clear(c.objects)
			c.fault, c.planted = nil, test.planted
			st, logs := openStore(t, root, test.properties)
			conform(t, st, root+"/root")
			c.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("x-ms-error-code", "AuthenticationFailed")
				w.WriteHeader(403)
				fmt.Fprintf(w, "Signature did not match. String to sign used was %s, url %s%s", c.planted, root, sas)
				return true
			}
			_, err := st.PutNew(t.Context(), named(root+"/f"), []byte("x"))
			var e *StoreError
			if !errors.As(err, &e) || !strings.Contains(e.Remedy, "access key") || e.Attempts != 5 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
			shown := fmt.Sprint(err)
			for _, entry := range logs.All() {
				shown += fmt.Sprint(entry.Message, entry.ContextMap())
			}
			for _, secret := range []string{test.planted, url.QueryEscape(test.planted), url.QueryEscape(plantedToken)} {
				if strings.Contains(shown, secret) {
					t.Errorf("shows %q: %s", secret, shown)
				}
			}
		})
	}
}

// TestAzureService: where the blob service of an account is.
func TestAzureService(t *testing.T) {
	for _, c := range []struct{ host, endpoint, protocol, want string }{
		{"acc.dfs.core.windows.net", "", "", "https://acc.blob.core.windows.net"},
		{"acc.blob.core.windows.net", "", "", "https://acc.blob.core.windows.net"},
		{"acc.dfs.core.chinacloudapi.cn", "", "", "https://acc.blob.core.chinacloudapi.cn"},
		{"acc", "", "", "https://acc.blob.core.windows.net"},
		{"acc.dfs.core.windows.net", "127.0.0.1:10000", "http", "http://127.0.0.1:10000/acc"},
		{"acc.dfs.core.windows.net", "blob.core.usgovcloudapi.net", "", "https://acc.blob.core.usgovcloudapi.net"},
		{"acc.dfs.core.windows.net", "http://azurite:10000/acc", "", "http://azurite:10000/acc"},
	} {
		u, err := azureService("acc", c.host, map[string]string{"adls.endpoint": c.endpoint, "adls.protocol": c.protocol})
		if err != nil || u.String() != c.want {
			t.Errorf("%+v: %v, %v", c, u, err)
		}
	}
}
