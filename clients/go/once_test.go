package seqd

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"
)

func (c *cluster) notRepeated(t *testing.T) {
	ctx, client := context.Background(), c.client(c.Endpoints)
	for key, result := range map[string]any{"no-json": math.NaN(), "too-long": strings.Repeat("x", 100_000)} {
		calls := 0
		for range 2 {
			_, _, err := Once(ctx, client, key, OnceOptions{Patience: time.Second},
				func(context.Context, Turn) (any, error) { calls++; return result, nil })
			want(t, err, "not-kept")
		}
		if calls != 1 {
			t.Errorf("%s: the work was done %d times", key, calls)
		}
	}
	// The caller's context ends during the work, as that of a handler whose client goes away.
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	for range 2 {
		paid, _, err := Once(short, client, "ends", OnceOptions{Patience: time.Second},
			func(context.Context, Turn) (string, error) { cancel(); return "paid", nil })
		if err != nil || paid != "paid" {
			t.Fatal(paid, err)
		}
		short = ctx
	}
	type result struct{ Kept, lost int }
	for range 2 {
		made, _, err := Once(ctx, client, "same", OnceOptions{},
			func(context.Context, Turn) (result, error) { return result{1, 2}, nil })
		if err != nil || made != (result{1, 0}) {
			t.Fatal(made, err)
		}
	}
}

func (c *cluster) contexts(t *testing.T) {
	ctx, client := context.Background(), c.client(c.Endpoints)
	ended, end := context.WithCancel(ctx)
	held, err := client.Lock(ended, "contexts", LockOptions{Owner: "one"})
	must(t, err)
	short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
	defer cancel()
	_, err = client.Lock(short, "contexts", LockOptions{Owner: "two"})
	want(t, err, "lock-held")
	end()
	must(t, held.Release(ended))
	noWait := time.Duration(0)
	next, err := client.Lock(ctx, "contexts", LockOptions{Owner: "two", Wait: &noWait})
	must(t, err)
	must(t, next.Release(ctx))
	if id, err := client.ID(ctx, ""); err != nil || id <= 0 {
		t.Fatal(id, err)
	}
}
