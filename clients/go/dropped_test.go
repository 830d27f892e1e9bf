package seqd

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// collected collects garbage until the channel is closed.
func collected(t *testing.T, ended <-chan struct{}) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		runtime.GC()
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the goroutine goes on")
}

func TestADroppedGeneratorStopsRenewingAndReleasesNothing(t *testing.T) {
	s := script(t, stub)
	ended := func() <-chan struct{} {
		generator, err := NewIDGenerator(s.client, GeneratorOptions{Owner: "test"})
		must(t, err)
		must(t, generator.Ready(context.Background()))
		return generator.keeper.ended
	}()
	collected(t, ended)
	if len(s.of("DELETE /v1/workers/default/1/lease")) != 0 {
		t.Error("the worker was released")
	}
}

func TestDroppedRangesReturnTheirValues(t *testing.T) {
	var returns atomic.Int32
	s := script(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		if r.Method == http.MethodDelete {
			returns.Add(1)
		}
		stub(w, r, body)
	})
	ended := func() <-chan struct{} {
		ranges, err := s.client.Ranges("order", 10)
		must(t, err)
		_, err = ranges.Next(context.Background())
		must(t, err)
		return ranges.keeper.ended
	}()
	collected(t, ended)
	if returns.Load() != 1 {
		t.Error(returns.Load())
	}
}

func TestAReturnWhoseResponseIsLostCountsNoValuesAsLost(t *testing.T) {
	isFirst := true
	s := script(t, func(w http.ResponseWriter, r *http.Request, body map[string]any) {
		switch {
		case r.Method != http.MethodDelete:
			stub(w, r, body)
		case isFirst:
			isFirst = false
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code":"grant-superseded","detail":"another","retryable":false}`))
		}
	})
	ranges, err := s.client.Ranges("order", 10)
	must(t, err)
	_, err = ranges.Next(context.Background())
	must(t, err)
	closed := ranges.Close(context.Background())
	if closed.Returned != 0 || closed.Lost != 0 || closed.Err == nil ||
		!strings.Contains(closed.Err.Error(), "it is unknown whether 9 values were returned") {
		t.Errorf("%+v", closed)
	}
}

func TestAReadingBeforeThatOfAnotherGoroutineIsReplacedByASecondOne(t *testing.T) {
	var stale atomic.Int64
	s := script(t, stub)
	generator, err := NewIDGenerator(s.client, GeneratorOptions{Owner: "test", WallMS: func() int64 {
		return time.Now().UnixMilli() - stale.Swap(0)
	}})
	must(t, err)
	ctx := context.Background()
	defer func() { _ = generator.Close(ctx) }()
	must(t, generator.Ready(ctx))
	for range 20 {
		_, err = generator.ID(ctx)
		must(t, err)
		stale.Store(100)
		_, err = generator.IDs(ctx, 1)
		must(t, err)
	}
}

// refusing counts the renewals that it refuses.
type refusing struct{ renewals atomic.Int32 }

func (r *refusing) acquire(context.Context, string, Fields) (heldLock, error) {
	return heldLock{Token: 1, Lease: "a", ExpiresInMS: 60_000}, nil
}

func (r *refusing) renew(context.Context, string, string, time.Duration, time.Duration) (heldLock, error) {
	r.renewals.Add(1)
	return heldLock{}, &Error{Code: "no-quorum", Retryable: true}
}

func (r *refusing) release(context.Context, string, string) error { return nil }

func TestAFailedRenewalIsRepeatedAfterAPauseByTheClock(t *testing.T) {
	locks := &refusing{}
	var now, readings atomic.Int64
	clock := func() time.Duration {
		readings.Add(1)
		return time.Duration(now.Load())
	}
	ctx := context.Background()
	l, err := acquireLock(ctx, locks, "a", LockOptions{Owner: "test", TTL: 60 * time.Second}, clock)
	must(t, err)
	defer func() { _ = l.Release(ctx) }()
	for renewals := int32(1); renewals <= 3; renewals++ {
		// The first is due after a third, and the next after a second each.
		now.Add(int64(20 * time.Second / time.Duration(renewals)))
		until(t, func() bool { return locks.renewals.Load() == renewals })
		// Both goroutines of the lock read the clock: it looks at it several times without another renewal.
		seen := readings.Load()
		until(t, func() bool { return readings.Load() >= seen+10 })
		if made := locks.renewals.Load(); made != renewals {
			t.Fatalf("%d renewals instead of %d", made, renewals)
		}
	}
}

func until(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition did not hold within 10 s")
		}
	}
}
