package seqd

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// received is one request of a scripted node.
type received struct {
	call string
	body map[string]any
	size int
}

// scripted is a node that answers by a function, and records the requests other than /livez.
type scripted struct {
	mutex    sync.Mutex
	requests []received
	client   *Client
}

func script(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, body map[string]any)) *scripted {
	t.Helper()
	s := &scripted{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path == OpLive.path {
			return
		}
		var body map[string]any
		_ = json.Unmarshal(text, &body)
		s.mutex.Lock()
		s.requests = append(s.requests, received{r.Method + " " + r.URL.Path, body, len(text)})
		s.mutex.Unlock()
		answer(w, r, body)
	}))
	t.Cleanup(server.Close)
	client, err := New(server.URL)
	must(t, err)
	s.client = client
	return s
}

func (s *scripted) of(call string) (found []received) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, one := range s.requests {
		if one.call == call {
			found = append(found, one)
		}
	}
	return found
}

// stub answers any request of a generator, of ranges, of a lock and of once.
func stub(w http.ResponseWriter, r *http.Request, _ map[string]any) {
	_, _ = w.Write([]byte("{" + stubLease + `,"layout":{` + stubLayout + "}}"))
}

func TestAResultWhoseStoringHasNoAnswerMayBeRepeated(t *testing.T) {
	s := script(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		if strings.HasSuffix(r.URL.Path, "/complete") {
			panic(http.ErrAbortHandler)
		}
		stub(w, r, body)
	})
	paid, _, err := Once(context.Background(), s.client, "key", OnceOptions{},
		func(context.Context, Turn) (string, error) { return "paid", nil })
	if want(t, err, "outcome-unknown"); paid != "paid" {
		t.Error(paid)
	}
}

func TestARetryAfterOneMillisecondHasALongerPause(t *testing.T) {
	s := script(t, func(w http.ResponseWriter, _ *http.Request, _ map[string]any) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"code":"overloaded","retryable":true,"retry_after_ms":1}`))
	})
	_, _, err := Once(context.Background(), s.client, "key", OnceOptions{Patience: 400 * time.Millisecond},
		func(context.Context, Turn) (string, error) { return "paid", nil })
	want(t, err, "overloaded")
	if begun := len(s.of("POST /v1/idempotency/key/begin")); begun > 22 {
		t.Errorf("%d requests", begun)
	}
}

func TestAResultIsSentWithoutEscapes(t *testing.T) {
	s := script(t, stub)
	result := strings.Repeat("<&>", 2000)
	_, _, err := Once(context.Background(), s.client, "key", OnceOptions{},
		func(context.Context, Turn) (string, error) { return result, nil })
	must(t, err)
	stored := s.of("POST /v1/idempotency/key/complete")[0]
	if stored.body["result"] != result || stored.size > len(result)+100 {
		t.Errorf("%d bytes", stored.size)
	}
}

func TestALockDoesNotWaitForSomethingElseThanSeqd(t *testing.T) {
	status := http.StatusNotFound
	s := script(t, func(w http.ResponseWriter, r *http.Request, _ map[string]any) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html>"))
	})
	wait := 2 * time.Second
	_, err := s.client.Lock(context.Background(), "a", LockOptions{Owner: "o"})
	if want(t, err, "bad-answer"); len(s.of("POST /v1/locks/a/acquire")) != 1 {
		t.Error("it was requested again")
	}
	// A proxy that cannot reach a node.
	status = http.StatusBadGateway
	_, err = s.client.Lock(context.Background(), "b", LockOptions{Owner: "o", Wait: &wait})
	if want(t, err, "outcome-unknown"); len(s.of("POST /v1/locks/b/acquire")) < 2 {
		t.Error("it was not requested again")
	}
	// Also a generator tries again.
	if isForGood(&Error{Code: "bad-answer", Status: http.StatusNotFound}) {
		t.Error("a generator gives up")
	}
}

func TestAnEndedContextDoesNotKeepWorkersAndValues(t *testing.T) {
	s := script(t, stub)
	ctx, cancel := context.WithCancel(context.Background())
	generator, err := NewIDGenerator(s.client, GeneratorOptions{Owner: "test"})
	must(t, err)
	must(t, generator.Ready(ctx))
	ranges, err := s.client.Ranges("order", 10)
	must(t, err)
	_, err = ranges.Next(ctx)
	must(t, err)
	cancel()
	must(t, generator.Close(ctx))
	if closed := ranges.Close(ctx); closed.Returned != 9 || closed.Err != nil {
		t.Errorf("%+v", closed)
	}
	if len(s.of("DELETE /v1/workers/default/1/lease")) != 1 {
		t.Error("the worker was not released")
	}
}

// cutOff is a node that loses the response to the first request of a path, which has effect nevertheless.
func cutOff(t *testing.T, path string, cancel func()) *scripted {
	var once sync.Once
	return script(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		isFirst := false
		if strings.HasSuffix(r.URL.Path, path) {
			once.Do(func() { isFirst = true })
		}
		if isFirst {
			cancel()
			<-r.Context().Done()
			return
		}
		stub(w, r, body)
	})
}

func TestAHoldOfACancelledWaitIsReleased(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := cutOff(t, "/acquire", cancel)
	if _, err := s.client.Lock(ctx, "a", LockOptions{Owner: "o"}); err == nil {
		t.Fatal("it was acquired")
	}
	acquired, released := s.of("POST /v1/locks/a/acquire"), s.of("POST /v1/locks/a/release")
	if len(acquired) != 2 || len(released) != 1 || released[0].body["lease"] != "9" ||
		acquired[1].body["nonce"] != acquired[0].body["nonce"] || acquired[1].body["wait_ms"] != 0.0 {
		t.Errorf("%v %v", acquired, released)
	}
}

func TestAClaimOfACancelledBeginIsAbandoned(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := cutOff(t, "/begin", cancel)
	_, _, err := Once(ctx, s.client, "key", OnceOptions{}, func(context.Context, Turn) (int, error) {
		t.Error("the work was done")
		return 0, nil
	})
	want(t, err, "no-answer")
	begun, abandoned := s.of("POST /v1/idempotency/key/begin"), s.of("POST /v1/idempotency/key/abandon")
	if len(begun) != 2 || len(abandoned) != 1 || abandoned[0].body["claim"] != "4" ||
		begun[1].body["nonce"] != begun[0].body["nonce"] {
		t.Errorf("%v %v", begun, abandoned)
	}
}

func TestRangesNameTheReasonWhyTheyHaveNoValue(t *testing.T) {
	client, err := New("http://127.0.0.1:9")
	must(t, err)
	ranges, err := client.Ranges("order", 10)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = ranges.Next(ctx)
	if want(t, err, "unreachable"); !as(err).Retryable {
		t.Error(err)
	}
	ranges.Close(ctx)
	// Each segment has the same values.
	cycled, err := script(t, stub).client.Ranges("order", 10)
	must(t, err)
	for range 10 {
		_, err = cycled.Next(context.Background())
		must(t, err)
	}
	_, err = cycled.Next(context.Background())
	want(t, err, "sequence-cycled")
	cycled.Close(context.Background())
}

func TestTheDefaultTimeoutIsThreeSecondsForAllEndpoints(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer hung.Close()
	silent := "http://" + hung.Addr().String()
	client, err := New(silent + "," + silent)
	must(t, err)
	began := time.Now()
	_, err = client.ID(context.Background(), "")
	if want(t, err, "no-answer"); time.Since(began) > 5*time.Second {
		t.Error(time.Since(began))
	}
}
