package seqd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

type described struct {
	OperationID string `json:"operationId"`
	Parameters  []struct{ Name string }
	RequestBody struct {
		Content map[string]struct {
			Schema struct{ Properties map[string]any }
		}
	}
}

func document(t *testing.T) map[string]map[string]described {
	t.Helper()
	var whole struct {
		Paths map[string]map[string]json.RawMessage
	}
	text, err := os.ReadFile("../../docs/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &whole)
	}
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]map[string]described{}
	for path, methods := range whole.Paths {
		paths[path] = map[string]described{}
		for method, raw := range methods {
			var one described
			if json.Unmarshal(raw, &one) == nil && one.OperationID != "" {
				paths[path][strings.ToUpper(method)] = one
			}
		}
	}
	return paths
}

// ofPrograms matches the paths whose every operation the client has. The others are commands of operators.
var ofPrograms = regexp.MustCompile(
	`^/v1/(ids?|uuids?|sequences|timestamps|locks|tokens|workers|layouts|idempotency)(/.*)?$`)

func TestEveryRouteIsInTheDocumentAndTheReverse(t *testing.T) {
	paths := document(t)
	known := map[string]bool{}
	for _, o := range operations {
		known[o.method+" "+o.path] = true
		if paths[o.path][o.method].OperationID != o.id {
			t.Errorf("no node serves %+v", o)
		}
	}
	for path, methods := range paths {
		for method, one := range methods {
			// The forms by POST of paths that also have GET have no use for a client.
			if ofPrograms.MatchString(path) && !strings.HasPrefix(one.OperationID, "post_") && !known[method+" "+path] {
				t.Errorf("the client does not have %s %s", method, path)
			}
		}
	}
}

const stubLease = `"id":"1","ids":["1","2"],"uuids":["a"],"first":"1","last":"10","count":10,"increment":"1",
"grant":"5","returned":9,"ranges":[],"state":"first","attempt":1,"token":"3","claim":"4","lease":"9",
"expires_in_ms":60000,"from_tick":"0","fence_tick":"35184372088832","renew_after_ms":60000`
const stubLayout = `"name":"default","epoch_ms":0,"tick_ms":1,"time_bits":48,"datacenter_bits":0,"worker_bits":5,
"sequence_bits":10,"order":"tick-worker-sequence","first_sequence":"zero"`

// TestEveryFieldIsInTheDocument calls each typed method against a stub, and looks up the sent fields.
func TestEveryFieldIsInTheDocument(t *testing.T) {
	paths := document(t)
	var mutex sync.Mutex
	var wrong []string
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mutex.Lock()
		requests++
		if unknown := unknownFields(paths, r, body); unknown != "" {
			wrong = append(wrong, unknown)
		}
		mutex.Unlock()
		_, _ = w.Write([]byte("{" + stubLease + `,"layout":{` + stubLayout + "}," + stubLayout + "}"))
	}))
	defer server.Close()
	ctx := context.Background()
	client, err := New(server.URL, WithTimeout(5*time.Second))
	must(t, err)
	_, err = client.ID(ctx, "default")
	must(t, err)
	_, err = client.IDs(ctx, "default", 2)
	must(t, err)
	_, err = client.UUIDs(ctx, 7, 2)
	must(t, err)
	_, err = client.Layout(ctx, "default")
	must(t, err)
	must(t, client.CreateSequence(ctx, "order", Fields{"mode": "segment"}))
	_, err = client.NextOnce(ctx, "order", 3, "key")
	must(t, err)
	_, err = client.Timestamp(ctx)
	must(t, err)
	work := func(context.Context, Turn) (int, error) { return 1, nil }
	_, _, err = Once(ctx, client, "key", OnceOptions{Fingerprint: "f"}, work)
	must(t, err)
	lock, err := client.Lock(ctx, "job", LockOptions{Owner: "test"})
	must(t, err)
	_, err = clusterLocks{client}.renew(ctx, "job", "9", time.Second, time.Second)
	must(t, err)
	must(t, lock.Release(ctx))
	ranges, err := client.Ranges("order", 10)
	must(t, err)
	_, err = ranges.Next(ctx)
	must(t, err)
	ranges.Close(ctx)
	datacenter := 0
	generator, err := NewIDGenerator(client, GeneratorOptions{Owner: "test", Datacenter: &datacenter})
	must(t, err)
	_, err = generator.ID(ctx)
	must(t, err)
	options := GeneratorOptions{Owner: "test", Layout: "default"}
	_, err = clusterLeases{client}.renew(ctx, options, &minter{lease: "9"}, time.Second)
	must(t, err)
	must(t, generator.Close(ctx))
	mutex.Lock()
	defer mutex.Unlock()
	if len(wrong) > 0 || requests < 16 {
		t.Errorf("%d requests: %v", requests, wrong)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unknownFields(paths map[string]map[string]described, r *http.Request, body []byte) string {
	for path, methods := range paths {
		pattern := "^" + regexp.MustCompile(`\{[a-z]+}`).ReplaceAllString(path, "[^/]+") + "$"
		one, found := methods[r.Method]
		if !found || !regexp.MustCompile(pattern).MatchString(r.URL.EscapedPath()) {
			continue
		}
		var known []string
		for _, parameter := range one.Parameters {
			known = append(known, parameter.Name)
		}
		for name := range one.RequestBody.Content["application/json"].Schema.Properties {
			known = append(known, name)
		}
		fields := map[string]any{}
		_ = json.Unmarshal(body, &fields)
		for name := range r.URL.Query() {
			fields[name] = nil
		}
		for name := range fields {
			if !slices.Contains(known, name) {
				return r.Method + " " + path + " has no field " + name
			}
		}
		return ""
	}
	return r.Method + " " + r.URL.Path + " is no route"
}
