package seqd

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// longestReading is the longest pause between two readings of the clock: the guard needs regular ones.
	longestReading = time.Second
	// betweenWoken bounds the early renewals that calls cause when they find the window ended.
	betweenWoken = time.Second
	// leastLimit is the shortest timeout of a renewal: a slow round of consensus.
	leastLimit      = time.Second
	leastRenewAfter = 250 * time.Millisecond
	again           = 300 * time.Millisecond
	// fresh is the time within which a renewal counts as recent.
	fresh = time.Second
)

func yield() { runtime.Gosched() }

type lease struct {
	ID           integer
	Lease        string
	FromTick     integer `json:"from_tick"`
	FenceTick    integer `json:"fence_tick"`
	RenewAfterMS int64   `json:"renew_after_ms"`
	Layout       Layout
}

func (l lease) renewAfter() time.Duration {
	return max(time.Duration(l.RenewAfterMS)*time.Millisecond, leastRenewAfter)
}

// leases is the three requests of a generator. Tests replace the cluster.
type leases interface {
	lease(ctx context.Context, options GeneratorOptions) (lease, error)
	renew(ctx context.Context, options GeneratorOptions, m *minter, limit time.Duration) (lease, error)
	release(ctx context.Context, options GeneratorOptions, worker int64, lease string, lastTick int64) error
}

type clusterLeases struct{ client *Client }

func (c clusterLeases) lease(ctx context.Context, o GeneratorOptions) (lease, error) {
	fields := Fields{"layout": o.Layout, "owner": o.Owner}
	if o.Datacenter != nil {
		fields["datacenter"] = *o.Datacenter
	}
	var out lease
	err := c.client.Call(ctx, OpLeaseWorker, nil, fields, &out)
	return out, err
}

func (c clusterLeases) renew(ctx context.Context, o GeneratorOptions, m *minter, limit time.Duration) (lease, error) {
	var out lease
	err := c.client.callWithin(ctx, limit, OpRenewWorker, []any{o.Layout, m.worker},
		Fields{"owner": o.Owner, "lease": m.lease}, "", &out)
	return out, err
}

func (c clusterLeases) release(ctx context.Context, o GeneratorOptions, worker int64, name string, last int64) error {
	fields := Fields{"owner": o.Owner, "lease": name}
	if last >= 0 {
		fields["last_tick"] = strconv.FormatInt(last, 10)
	}
	return c.client.Call(ctx, OpReleaseWorker, []any{o.Layout, worker}, fields, &struct{}{})
}

// generatorKeeper is the goroutine of one generator: it takes a lease, renews it, takes another if it is lost, and
// releases it at the end. The fence comes from the cluster's clocks, so the lease is renewed whatever the clock of this
// process shows.
type generatorKeeper struct {
	leases  leases
	options GeneratorOptions
	began   time.Time
	pace    pace
	// closing ends renewals and pauses. A request for a lease is completed, so that it is released.
	closing   context.Context
	cancel    context.CancelFunc
	ended     chan struct{}
	woken     chan struct{}
	attempted waiters

	mutex       sync.Mutex
	guard       clockGuard
	minter      *minter
	attempts    int
	lastAttempt time.Time
	err         *Error
	taken       int
	renewAfter  time.Duration
	closeBy     time.Time
	result      error
}

func newGeneratorKeeper(leases leases, options GeneratorOptions) *generatorKeeper {
	closing, cancel := context.WithCancel(context.Background())
	k := &generatorKeeper{leases: leases, options: options, began: time.Now(), closing: closing, cancel: cancel,
		ended: make(chan struct{}), woken: make(chan struct{}, 1), guard: clockGuard{policy: *options.Clock}}
	go k.keep()
	return k
}

func (k *generatorKeeper) isClosing() bool { return k.closing.Err() != nil }

func (k *generatorKeeper) mono() int64 { return time.Since(k.began).Milliseconds() }

// mint is one attempt, without waiting.
func (k *generatorKeeper) mint(wall, count int64) mint {
	k.mutex.Lock()
	isClosing := k.isClosing()
	current := k.minter
	var verdict *mint
	if !isClosing {
		verdict = k.guard.judgeForMinting(wall, k.mono())
	}
	isFresh := k.attempts > 0 && k.err == nil && time.Since(k.lastAttempt) < fresh
	k.mutex.Unlock()
	switch {
	case verdict != nil:
		return *verdict
	case isClosing:
		return mint{code: "closed", detail: "the generator is closed"}
	case current == nil:
		return mint{code: "no-lease", detail: "no lease"}
	}
	made := current.mint(wall, count)
	if made.code == "window-ended" && isFresh && wall >= current.endsMS() {
		// A window that was just renewed has not ended by the cluster's clock.
		return mint{code: "clock-ahead", detail: fmt.Sprintf(
			"the wall clock is past the new window by %d ms: it is ahead of the cluster's", wall-current.endsMS())}
	}
	return made
}

func (k *generatorKeeper) attempt() <-chan struct{} { return k.attempted.next() }

func (k *generatorKeeper) isUnused() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.minter == nil || k.minter.lastTick() < 0
}

func (k *generatorKeeper) status() GeneratorStatus {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	status := GeneratorStatus{Worker: -1, Leases: k.taken}
	if k.err != nil {
		status.Err = k.err
	}
	if k.minter != nil && !k.isClosing() {
		status.Worker, status.WindowEnds = k.minter.worker, time.UnixMilli(k.minter.endsMS())
	}
	return status
}

func (k *generatorKeeper) lastError() *Error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.err
}

// await wakes the keeper and waits for its next attempt, if that can help.
func (k *generatorKeeper) await(ctx context.Context, refusal mint, attempt <-chan struct{}) error {
	if last := k.lastError(); last != nil && isForGood(last) {
		return last
	}
	select {
	case k.woken <- struct{}{}:
	default:
	}
	select {
	case <-attempt:
		return nil
	case <-k.closing.Done():
		return nil
	case <-ctx.Done():
	}
	last := k.lastError()
	if last != nil && last.Code == "workers-exhausted" {
		return last
	}
	failed := &Error{Code: refusal.code, Detail: refusal.detail, Retryable: true, cause: ctx.Err()}
	if last != nil {
		failed.Detail, failed.cause = failed.Detail+": "+last.Error(), last
	}
	return failed
}

func (k *generatorKeeper) keep() {
	defer close(k.ended)
	for !k.isClosing() {
		failed := k.takeOrRenew()
		if k.isClosing() {
			break
		}
		k.mutex.Lock()
		wait := k.pace.afterSuccess(k.renewAfter)
		if failed != nil {
			asked := failed.RetryAfter
			// A wrong clock of one node is no reason to wait for another.
			if failed.Code == "clock-behind" || failed.Code == "clock-skewed" {
				asked = 0
			}
			wait = k.pace.after(isForGood(failed), asked)
		}
		k.err, k.lastAttempt = failed, time.Now()
		k.attempts++
		k.mutex.Unlock()
		k.attempted.wake()
		k.rest(wait, failed != nil)
	}
	k.result = k.releaseWorker()
}

// rest waits until the next attempt is due, and reads the clock meanwhile. After a failure, no call shortens it.
func (k *generatorKeeper) rest(wait time.Duration, failed bool) {
	began := time.Now()
	until := began.Add(wait)
	woken := k.woken
	if failed {
		woken = nil
	}
	for {
		k.mutex.Lock()
		k.guard.judge(k.options.WallMS(), k.mono())
		current := k.minter
		k.mutex.Unlock()
		left := time.Until(until)
		if left <= 0 {
			return
		}
		timer := time.NewTimer(min(left, longestReading))
		select {
		case <-k.closing.Done():
			timer.Stop()
			return
		case <-woken:
			// The call may have found the state before the attempt that just succeeded.
			if early := began.Add(betweenWoken); early.Before(until) &&
				(current == nil || current.endsMS() <= k.options.WallMS()) {
				until = early
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (k *generatorKeeper) takeOrRenew() *Error {
	k.mutex.Lock()
	current, renewAfter := k.minter, k.renewAfter
	k.mutex.Unlock()
	if current == nil {
		return k.take()
	}
	renewed, err := k.leases.renew(k.closing, k.options, current, max(renewAfter, leastLimit))
	if err != nil {
		failed := as(err)
		if failed.Code != "lease-lost" {
			return failed
		}
		k.drop(current)
		if k.isClosing() {
			return failed
		}
		return k.take()
	}
	if renewed.Lease != current.lease || int64(renewed.ID) != current.worker {
		return &Error{Code: "bad-answer", Detail: "the renewal is for another lease"}
	}
	current.extend(int64(renewed.FenceTick))
	k.mutex.Lock()
	k.renewAfter = renewed.renewAfter()
	k.mutex.Unlock()
	return nil
}

func (k *generatorKeeper) take() *Error {
	// Not under `closing`: a lease whose response is lost stays taken for a window.
	granted, err := k.leases.lease(context.Background(), k.options)
	if err != nil {
		return as(err)
	}
	made, err := newMinter(granted.Layout, int64(granted.ID), granted.Lease, int64(granted.FromTick),
		int64(granted.FenceTick), *k.options.Clock)
	if err != nil {
		// Nothing was or will be minted: the next holder may use the whole window.
		_ = k.leases.release(context.Background(), k.options, int64(granted.ID), granted.Lease, int64(granted.FromTick)-1)
		return as(err)
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.isClosing() {
		made.close()
	}
	k.minter, k.renewAfter = made, granted.renewAfter()
	k.taken++
	return nil
}

// drop never mints with a lost lease again.
func (k *generatorKeeper) drop(lost *minter) {
	lost.close()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if last := lost.lastTick(); last >= 0 {
		k.guard.lastUsed = max(k.guard.lastUsed, lost.layout.WallAt(last))
	}
	k.minter = nil
}

func (k *generatorKeeper) close(ctx context.Context) error {
	// A worker that is not returned stays reserved for the whole window.
	ctx, end := notEnded(ctx, k.options.Patience)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, k.options.Patience)
	defer cancel()
	k.mutex.Lock()
	if k.closeBy.IsZero() {
		k.closeBy, _ = ctx.Deadline()
		if k.minter != nil {
			k.minter.close()
		}
		k.cancel()
	}
	current := k.minter
	k.mutex.Unlock()
	select {
	case <-k.ended:
		return k.result
	case <-ctx.Done():
		if current == nil {
			return nil
		}
		return notReleased(current, "no response within the time limit")
	}
}

// releaseWorker repeats the release until it is confirmed: a second release changes nothing.
func (k *generatorKeeper) releaseWorker() error {
	k.mutex.Lock()
	held, closeBy := k.minter, k.closeBy
	k.mutex.Unlock()
	if held == nil {
		return nil
	}
	held.close()
	ctx, cancel := context.WithDeadline(context.Background(), closeBy)
	defer cancel()
	why := "no time was left"
	for ctx.Err() == nil {
		err := k.leases.release(ctx, k.options, held.worker, held.lease, held.releaseTick())
		// A lease that has ended already: the response to an earlier release was lost.
		if err == nil || as(err).Code == "lease-lost" {
			return nil
		}
		why = err.Error()
		if isForGood(as(err)) {
			break
		}
		_ = sleep(ctx, again)
	}
	return notReleased(held, why)
}

func notReleased(held *minter, why string) error {
	return &Error{Code: "not-released", Detail: fmt.Sprintf(
		"worker %d was not released and stays reserved until %s: %s", held.worker, timeText(held.endsMS()), why)}
}

// isForGood returns whether another attempt would most likely fail in the same way.
func isForGood(failed *Error) bool {
	switch failed.Code {
	case "layout-exhausted", "unknown-layout", "bad-lease":
		return true
	}
	return failed.isRefusal()
}
