package seqd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode"
)

// MaxCount is the largest number of IDs per call: 25 ms of the layout default.
const MaxCount = 100_000

// looksPerTick is the number of clock readings while one millisecond passes, before a sleep.
const looksPerTick = 20_000

// GeneratorOptions are the options of NewIDGenerator. Only Owner is required.
type GeneratorOptions struct {
	// Owner is the name of a host, pod or service, of 1 to 255 bytes. After a clean end the same owner receives the same
	// worker if it is free. Two generators with one owner hold two workers.
	Owner string
	// Layout is the layout of the IDs, default by default.
	Layout string
	// Datacenter is for a layout that has datacenters. Any datacenter by default.
	Datacenter *int
	// Clock is the tolerances for the wall clock, DefaultClockPolicy by default.
	Clock *ClockPolicy
	// Patience is how long a call waits for a tick, a lease or a free worker, 5 s by default.
	Patience time.Duration
	// WallMS is the wall clock in Unix milliseconds. For tests.
	WallMS func() int64
}

// IDGenerator mints IDs in this process, with a worker that the cluster has leased to it. A call sends no request.
//
// Uniqueness depends only on the fence: a lease is a window of ticks that belongs to no other holder, so a process that
// is paused, disconnected or has a wrong clock mints nothing that another one mints. A goroutine renews the lease at a
// third of its window. While it cannot, minting continues up to the fence and then fails with the reason.
//
// It is safe for concurrent use. Create one per process; end it before the memory of a running process is copied.
type IDGenerator struct {
	keeper *generatorKeeper
	// looking is held by the one call that polls the clock for the next millisecond.
	looking chan struct{}
}

// GeneratorStatus is the current state of a generator, for a health check.
type GeneratorStatus struct {
	// Worker is the whole worker field, or -1 without a lease.
	Worker int64
	// WindowEnds is the end of the window by the wall clock.
	WindowEnds time.Time
	// Leases is the number of leases since the start; above one if a lease was lost.
	Leases int
	// Err is why the last attempt to take or renew a lease failed.
	Err error
}

// NewIDGenerator begins to lease a worker and returns at once. The first call for an ID waits for the lease.
func NewIDGenerator(client *Client, options GeneratorOptions) (*IDGenerator, error) {
	return newIDGenerator(clusterLeases{client}, options)
}

func newIDGenerator(leases leases, options GeneratorOptions) (*IDGenerator, error) {
	if len(options.Owner) < 1 || len(options.Owner) > 255 || strings.ContainsFunc(options.Owner, unicode.IsControl) {
		return nil, invalid("an owner has 1 to 255 bytes without control characters")
	}
	if options.Layout == "" {
		options.Layout = "default"
	}
	if options.Patience == 0 {
		options.Patience = 5 * time.Second
	}
	if options.Clock == nil {
		policy := DefaultClockPolicy()
		options.Clock = &policy
	}
	if options.WallMS == nil {
		options.WallMS = func() int64 { return time.Now().UnixMilli() }
	}
	g := &IDGenerator{newGeneratorKeeper(leases, options), make(chan struct{}, 1)}
	// The goroutine refers only to the keeper. It releases nothing: the worker is free after its window.
	runtime.SetFinalizer(g, func(g *IDGenerator) { g.keeper.cancel() })
	return g, nil
}

// Ready waits until an ID can be minted, at most for the patience of the options.
func (g *IDGenerator) Ready(ctx context.Context) error {
	_, err := g.mint(ctx, 0)
	return err
}

// ID returns one ID.
func (g *IDGenerator) ID(ctx context.Context) (int64, error) {
	k := g.keeper
	made := k.mint(k.options.WallMS(), 1)
	runtime.KeepAlive(g)
	for made.ids == 0 {
		var err error
		if made, err = g.mint(ctx, 1); err != nil {
			return 0, err
		}
	}
	return made.first, nil
}

// IDs returns count IDs, strictly increasing and from one worker.
func (g *IDGenerator) IDs(ctx context.Context, count int) ([]int64, error) {
	if count < 1 || count > MaxCount {
		return nil, invalid("a count is 1 to %d, not %d", MaxCount, count)
	}
	ids, worker := make([]int64, 0, count), int64(-1)
	ctx, cancel := context.WithTimeout(ctx, g.keeper.options.Patience)
	defer cancel()
	for len(ids) < count {
		made, err := g.mint(ctx, int64(count-len(ids)))
		if err != nil {
			return nil, err
		}
		if made.worker != worker {
			// IDs of two leases need not increase: the earlier ones are skipped.
			ids, worker = ids[:0], made.worker
		}
		for at := range made.ids {
			ids = append(ids, made.first+at*made.step)
		}
	}
	return ids, nil
}

// Status returns the current state.
func (g *IDGenerator) Status() GeneratorStatus { return g.keeper.status() }

// Close permanently stops minting, then releases the worker with the last used tick, also if the context has ended. It
// fails with not-released if no node confirmed that in time: the worker is then free after its window.
func (g *IDGenerator) Close(ctx context.Context) error {
	defer runtime.KeepAlive(g)
	return g.keeper.close(ctx)
}

// mint returns IDs of one tick, with 0 none as soon as one could be minted.
func (g *IDGenerator) mint(ctx context.Context, count int64) (mint, error) {
	defer runtime.KeepAlive(g)
	k := g.keeper
	ctx, cancel := context.WithTimeout(ctx, k.options.Patience)
	defer cancel()
	// The reading may be older than that of another goroutine: the first wait or refusal is a second reading.
	lookedAgain := false
	for {
		attempt := k.attempt()
		wall := k.options.WallMS()
		made := k.mint(wall, count)
		switch {
		case made.code == "" && made.waitMS == 0:
			return made, nil
		case !lookedAgain && (made.code == "" || made.code == "clock-behind"):
			lookedAgain = true
		case made.code == "":
			if err := g.pause(ctx, wall, made.waitMS); err != nil {
				return made, err
			}
		case made.code == "no-lease" || made.code == "window-ended":
			if err := k.await(ctx, made, attempt); err != nil {
				return made, err
			}
		case made.code == "clock-behind" && k.isUnused() && leftMS(ctx) >= made.byMS:
			// The window begins in the future, before the deadline.
			if err := sleep(ctx, time.Duration(made.byMS)*time.Millisecond); err != nil {
				return made, made.err(err)
			}
		default:
			return made, made.err(nil)
		}
	}
}

func leftMS(ctx context.Context) int64 {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline).Milliseconds()
}

// pause waits for a tick, or for a clock that is slightly behind.
func (g *IDGenerator) pause(ctx context.Context, wall, ms int64) error {
	busy := &Error{Code: "busy", Retryable: true,
		Detail: fmt.Sprintf("the worker's ticks are used up; the next begins in %d ms", ms)}
	if leftMS(ctx) < ms {
		return busy
	}
	wait := time.Duration(ms) * time.Millisecond
	if ms > 1 {
		if sleep(ctx, wait) != nil {
			return busy
		}
		return nil
	}
	// A sleep is longer than a millisecond and would miss every other tick. One call polls the clock; the others wait
	// for it.
	select {
	case g.looking <- struct{}{}:
	case <-ctx.Done():
		return busy
	}
	defer func() { <-g.looking }()
	for looks := 0; g.keeper.options.WallMS() < wall+ms; looks++ {
		if looks == looksPerTick {
			_ = sleep(ctx, wait)
			return nil
		}
		yield()
	}
	return nil
}

// pace is the waits between requests of a generator or of ranges: short, spread over processes, bounded from below.
type pace struct{ failures int }

// afterSuccess is slightly before due, so that processes that started together drift apart.
func (p *pace) afterSuccess(due time.Duration) time.Duration {
	p.failures = 0
	return time.Duration(float64(due) * (0.85 + 0.15*rand.Float64()))
}

// after is the wait after a failure. asked is the wait that the response requests, of which 5 s are kept: a worker may
// be released before the announced time.
func (p *pace) after(isForGood bool, asked time.Duration) time.Duration {
	spread := 1 + 0.25*rand.Float64()
	if isForGood {
		return time.Duration(float64(10*time.Second) * spread)
	}
	doubled := min(300*time.Millisecond<<min(p.failures, 4), 2*time.Second)
	p.failures++
	return time.Duration(float64(max(doubled, min(asked, 5*time.Second))) * spread)
}

// waiters wakes all goroutines that wait for a change.
type waiters struct {
	mutex   sync.Mutex
	changed chan struct{}
}

// next returns a channel that is closed at the next change.
func (w *waiters) next() <-chan struct{} {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

func (w *waiters) wake() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}
