package seqd

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// TestRates prints the rates of one goroutine: local IDs, values of ranges, and Next, as ratios to a bare atomic increment.
func TestRates(t *testing.T) {
	if os.Getenv("RATES") == "" {
		t.Skip("no RATES")
	}
	c := startedCluster(t)
	ctx, client := context.Background(), c.client(c.Endpoints)
	must(t, client.CreateSequence(ctx, "bench", Fields{"mode": "segment"}))
	var counter atomic.Int64
	bare := rate("bare loop, an atomic increment", 0, func() int {
		for range 1000 {
			counter.Add(1)
		}
		return 1000
	})
	generator, err := NewIDGenerator(client, GeneratorOptions{Owner: "bench", Patience: 10 * time.Second})
	must(t, err)
	must(t, generator.Ready(ctx))
	rate("local IDs, one per call", bare, func() int {
		return one(generator.ID(ctx))
	})
	rate("local IDs, 1000 per call", bare, func() int {
		ids, err := generator.IDs(ctx, 1000)
		return one(0, err) * len(ids)
	})
	must(t, generator.Close(ctx))
	ranges, err := client.Ranges("bench", 10_000_000)
	must(t, err)
	rate("ranges", bare, func() int {
		return one(ranges.Next(ctx))
	})
	ranges.Close(ctx)
	rate("next, a request each", bare, func() int {
		_, err := client.Next(ctx, "bench", 1)
		return one(0, err)
	})
}

// one is the count of a value. A call of t.Helper would take longer than the value.
func one(_ int64, err error) int {
	if err != nil {
		panic(err)
	}
	return 1
}

func rate(name string, bare float64, step func() int) float64 {
	began, made := time.Now(), 0
	for time.Since(began) < 3*time.Second {
		for range 100 {
			made += step()
		}
	}
	rate := float64(made) / time.Since(began).Seconds()
	ratio := ""
	if bare > 0 {
		ratio = fmt.Sprintf("  %.6f of the bare loop", rate/bare)
	}
	fmt.Printf("%-32s %14.0f/s%s\n", name, rate, ratio)
	return rate
}
