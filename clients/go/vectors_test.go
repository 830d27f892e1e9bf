package seqd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// vectors is clients/vectors.json: the decisions of the Rust crate, which every library repeats.
type vectors struct {
	Layouts []struct {
		Layout Layout
		Times  []struct {
			UnixMS  int64 `json:"unix_ms"`
			Tick    *integer
			Refused string
		}
		IDs []struct {
			ID, Tick               integer
			Sequence, Worker       int
			WorkerID               int   `json:"worker_id"`
			UnixMS                 int64 `json:"unix_ms"`
			Hex, Base62, Crockford string
		}
	}
	Leases []struct {
		Name            string
		Layout          Layout
		MaxBackwardWait int64  `json:"max_backward_wait_ms"`
		MaxForwardJump  int64  `json:"max_forward_jump_ms"`
		OnRollback      string `json:"on_rollback"`
		Steps           []struct {
			Do             string
			At             int64   `json:"at_ms"`
			Wall           int64   `json:"wall_ms"`
			Worker         int64   `json:"worker_id"`
			From           integer `json:"from_tick"`
			Fence          integer `json:"fence_tick"`
			Last           integer `json:"last_tick"`
			Count          int64
			IDs            []integer
			Wait           int64 `json:"wait_ms"`
			Refused, Clock string
		}
	}
	Locks []struct {
		Name  string
		TTL   int64 `json:"ttl_ms"`
		Steps []struct {
			Do         string
			At         int64 `json:"at_ms"`
			Sent       int64 `json:"sent_ms"`
			Expires    int64 `json:"expires_in_ms"`
			Until      int64 `json:"until_ms"`
			Code, Lost string
		}
	}
	Operations []struct {
		ID, Method, Path, Repeat string
		Waits                    bool
	}
	Retries []struct {
		Repeatable bool
		Then       string
		Node       node
		Error      struct {
			Code       string
			Retryable  bool
			RetryAfter int64 `json:"retry_after_ms"`
		}
	}
}

type node struct {
	Does, Body string
	Status     int
	Headers    map[string]string
}

func read(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("../vectors.json")
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLayoutsAndTexts(t *testing.T) {
	for _, vector := range read(t).Layouts {
		l := vector.Layout
		if err := l.check(); err != nil {
			t.Fatal(err)
		}
		for _, one := range vector.Times {
			tick := l.TickAt(one.UnixMS)
			if fits := tick >= 0 && tick <= l.MaxTick(); fits != (one.Tick != nil) || fits && tick != int64(*one.Tick) {
				t.Errorf("%s: tick %d at %d: %+v", l.Name, tick, one.UnixMS, one)
			}
		}
		for _, one := range vector.IDs {
			parts, err := l.Unpack(int64(one.ID))
			want := Parts{int64(one.Tick), one.WorkerID, one.Sequence}
			id, err2 := l.Pack(want)
			if err != nil || err2 != nil || parts != want || id != int64(one.ID) || l.WallAt(parts.Tick) != one.UnixMS {
				t.Errorf("%s: %+v is not %+v", l.Name, parts, one)
			}
			for format, text := range map[Format]string{Hex: one.Hex, Base62: one.Base62, Crockford: one.Crockford} {
				parsed, err := format.Parse(text)
				if err != nil || parsed != uint64(id) || format.Encode(parsed) != text {
					t.Errorf("%s of %d is %s", text, id, format.Encode(uint64(id)))
				}
			}
		}
	}
}

func TestLeaseScripts(t *testing.T) {
	for _, script := range read(t).Leases {
		policy := ClockPolicy{time.Duration(script.MaxBackwardWait) * time.Millisecond, script.OnRollback == "continue",
			time.Duration(script.MaxForwardJump) * time.Millisecond}
		guard := clockGuard{policy: policy}
		// The clocks are arguments of the parts that the keeper joins in its `mint` and `drop`.
		k := &generatorKeeper{guard: guard}
		for at, step := range script.Steps {
			switch step.Do {
			case "granted":
				made, err := newMinter(script.Layout, step.Worker, "1", int64(step.From), int64(step.Fence), policy)
				if err != nil {
					t.Fatal(script.Name, err)
				}
				k.minter = made
			case "renewed":
				k.minter.extend(int64(step.Fence))
			case "lost":
				k.drop(k.minter)
			case "close":
				k.minter.close()
				if last := k.minter.releaseTick(); last != int64(step.Last) {
					t.Errorf("%s, step %d: released with %d", script.Name, at, last)
				}
			case "read":
				got := "good"
				if verdict := k.guard.judge(step.Wall, step.At); verdict != nil {
					got = verdict.code
				}
				if got != step.Clock {
					t.Errorf("%s, step %d: %s instead of %s", script.Name, at, got, step.Clock)
				}
			case "mint":
				made := mint{code: "no-lease"}
				if verdict := k.guard.judgeForMinting(step.Wall, step.At); verdict != nil {
					made = *verdict
				} else if k.minter != nil {
					made = k.minter.mint(step.Wall, step.Count)
				}
				good := made.code == step.Refused && made.waitMS == step.Wait && made.ids == int64(len(step.IDs))
				for at, id := range step.IDs {
					good = good && made.first+int64(at)*made.step == int64(id)
				}
				if !good {
					t.Errorf("%s, step %d: %+v instead of %+v", script.Name, at, made, step)
				}
			default:
				t.Fatalf("unknown step %q", step.Do)
			}
		}
	}
}

func TestLockScripts(t *testing.T) {
	ms := func(value int64) time.Duration { return time.Duration(value) * time.Millisecond }
	for _, script := range read(t).Locks {
		h := hold{ttl: ms(script.TTL)}
		for at, step := range script.Steps {
			switch step.Do {
			case "granted":
				h.until = lasts(step.Expires, ms(step.Sent), h.ttl)
			case "renewed":
				h.renewed(step.Expires, ms(step.Sent), ms(step.At))
			case "refused":
				h.refused(&Error{Code: step.Code, Retryable: step.Code == "no-quorum"})
			case "check":
				until, lost := h.state(ms(step.At))
				got := ""
				if lost != nil {
					got = lost.Reason
				}
				if got != step.Lost || lost == nil && until != ms(step.Until) {
					t.Errorf("%s, step %d: %s %q instead of %+v", script.Name, at, until, got, step)
				}
			default:
				t.Fatalf("unknown step %q", step.Do)
			}
		}
	}
}

func TestOperationsHaveTheRulesOfTheVectors(t *testing.T) {
	known := map[string]Operation{}
	for _, o := range read(t).Operations {
		rule := map[string]repeat{"harmless": harmless, "with-nonce": withNonce, "never": never}[o.Repeat]
		known[o.ID] = Operation{o.ID, o.Method, o.Path, rule, o.Waits}
	}
	for _, o := range operations {
		if known[o.id] != o {
			t.Errorf("%+v is %+v", o, known[o.id])
		}
	}
}

const goodBody = `{"id":"7","ranges":[],"first":"7","last":"7","count":1}`

// serve starts a node that does as a vector says, and counts requests other than /livez.
func serve(t *testing.T, n node) (string, *atomic.Int32) {
	asked := &atomic.Int32{}
	if n.Does == "refuse" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return "http://" + listener.Addr().String(), asked
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		isLive := r.URL.Path == "/livez"
		if !isLive {
			asked.Add(1)
		}
		switch {
		case n.Does == "hang-livez", n.Does == "hang" && !isLive:
			<-r.Context().Done()
		case n.Does == "fail-livez" && isLive:
			w.WriteHeader(503)
		case isLive:
			_, _ = w.Write([]byte("{}"))
		case n.Does == "answer":
			for name, value := range n.Headers {
				w.Header().Set(name, value)
			}
			w.WriteHeader(n.Status)
			_, _ = w.Write([]byte(n.Body))
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestRetries(t *testing.T) {
	for number, vector := range read(t).Retries {
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			t.Parallel()
			send := func(endpoints string) error {
				client, err := New(endpoints, WithTimeout(1500*time.Millisecond))
				if err != nil {
					t.Fatal(err)
				}
				defer client.transport.http.CloseIdleConnections()
				if vector.Repeatable {
					_, err = client.ID(context.Background(), "default")
				} else {
					_, err = client.Next(context.Background(), "a", 1)
				}
				return err
			}
			first, _ := serve(t, vector.Node)
			good, asked := serve(t, node{Does: "answer", Status: 200, Body: goodBody})
			err := send(first + "," + good)
			if isNext := asked.Load() == 1; isNext != (vector.Then == "next") || isNext != (err == nil) {
				t.Errorf("%+v: %v", vector, err)
			}
			alone, _ := serve(t, vector.Node)
			var failed *Error
			if !errors.As(send(alone), &failed) || failed.Code != vector.Error.Code ||
				failed.Retryable != vector.Error.Retryable || failed.RetryAfter.Milliseconds() != vector.Error.RetryAfter {
				t.Errorf("%+v: %+v", vector, failed)
			}
		})
	}
}
