package seqd

import (
	"context"
	"sync"
	"time"
)

const (
	// longestRound is the longest wait of one request that the cluster accepts.
	longestRound = 10 * time.Minute
	// leastRenewal is the shortest timeout of a renewal, and that of the release of a lost lock.
	leastRenewal = time.Second
	// releasing bounds the release of a hold that is not lost, over all attempts.
	releasing = 5 * time.Second
	// drift is the assumed drift: this clock may be slower than the leader's by one part in a thousand.
	drift = 1000
	// lookEvery is the interval of the readings of the clock, because timers stop while the machine is suspended.
	lookEvery = 100 * time.Millisecond
	// mostRequests bounds the requests of one acquisition whose responses are lost: one per node of a cluster.
	mostRequests = 5
)

// LockOptions are the options of Client.Lock.
type LockOptions struct {
	// Owner is for display: 1 to 128 printable ASCII characters.
	Owner string
	// TTL is how long a hold lasts without a renewal, 100 ms to 24 h, 30 s by default.
	TTL time.Duration
	// Wait is the longest wait for the lock. Nil waits until half a second before the deadline of the context, or
	// without a limit if it has none; a pointer to 0 does not wait.
	Wait *time.Duration
	// Permits is the number of simultaneous holders, 1 by default. All users of a lock must use the same number.
	Permits int
	// Shared shares the hold with other shared holds.
	Shared bool
	// LockDelay is the pause after an expired hold during which nobody is granted the lock, up to 60 s.
	LockDelay time.Duration
}

type heldLock struct {
	Token       integer
	Lease       string
	ExpiresInMS int64 `json:"expires_in_ms"`
}

// locks is the three requests of a lock holder. Tests replace the cluster.
type locks interface {
	acquire(ctx context.Context, name string, request Fields) (heldLock, error)
	renew(ctx context.Context, name, lease string, ttl, limit time.Duration) (heldLock, error)
	release(ctx context.Context, name, lease string) error
}

type clusterLocks struct{ client *Client }

// acquire repeats a lost request with the same nonce, so that it finds its place in the queue or its hold.
func (c clusterLocks) acquire(ctx context.Context, name string, request Fields) (heldLock, error) {
	until := time.Now().Add(time.Duration(request["wait_ms"].(int64)) * time.Millisecond)
	for requests := 1; ; requests++ {
		var out heldLock
		err := c.client.Call(ctx, OpAcquireLock, []any{name}, request, &out)
		if err == nil || requests == mostRequests || ctx.Err() != nil {
			return out, err
		}
		if failed := as(err); failed.Code != "outcome-unknown" || failed.Status != 0 {
			return out, err
		}
		request["wait_ms"] = max(0, time.Until(until).Milliseconds())
	}
}

func (c clusterLocks) renew(ctx context.Context, name, lease string, ttl, limit time.Duration) (heldLock, error) {
	var out heldLock
	err := c.client.callWithin(ctx, limit, OpRenewLock, []any{name},
		Fields{"lease": lease, "ttl_ms": ttl.Milliseconds()}, "", &out)
	return out, err
}

func (c clusterLocks) release(ctx context.Context, name, lease string) error {
	return c.client.Call(ctx, OpReleaseLock, []any{name}, Fields{"lease": lease}, &struct{}{})
}

// verdict is the meaning of an error for a request about a lock.
type verdict int

const (
	// verdictHeld: another caller holds the lock.
	verdictHeld verdict = iota
	// verdictNotHeld: the lease does not belong to a hold.
	verdictNotHeld
	// verdictAgain: the same request may succeed later and is safe to repeat.
	verdictAgain
	verdictNever
)

func verdictOf(failed *Error) verdict {
	switch {
	case failed.Code == "lock-held":
		return verdictHeld
	case failed.Code == "lease-lost":
		return verdictNotHeld
	case failed.Retryable, failed.isSilence():
		return verdictAgain
	}
	return verdictNever
}

// hold is what is known of a hold. The first reason of a loss stays.
type hold struct {
	ttl time.Duration

	mutex sync.Mutex
	until time.Duration
	lost  *Error
	why   *Error
}

// lasts returns until when a hold lasts at least. sent is a time before the request was sent.
func lasts(expiresInMS int64, sent, ttl time.Duration) time.Duration {
	left := min(time.Duration(expiresInMS)*time.Millisecond, ttl)
	return sent + left - left/drift
}

// renewed records a renewal. A hold that has run out by this clock stays lost, whatever arrives later.
func (h *hold) renewed(expiresInMS int64, sent, now time.Duration) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.check(now) == nil {
		h.until = max(h.until, lasts(expiresInMS, sent, h.ttl))
	}
}

// refused records a failed renewal, and returns whether the cluster has ended the hold.
func (h *hold) refused(failed *Error) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if verdict := verdictOf(failed); verdict == verdictAgain || verdict == verdictNever {
		h.why = failed
		return false
	}
	h.lose(&Error{Code: "lock-lost", Reason: "taken-away", cause: failed,
		Detail: "the cluster reports that the lock is no longer held: " + failed.Error()})
	return true
}

func (h *hold) lose(reason *Error) {
	if h.lost == nil {
		h.lost = reason
	}
}

// check returns the reason of the loss, or nil. The caller holds the mutex.
func (h *hold) check(now time.Duration) *Error {
	if h.lost == nil && now >= h.until {
		lost := &Error{Code: "lock-lost", Reason: "ran-out",
			Detail: "the lock expired because it was not renewed in time"}
		if h.why != nil {
			lost.Detail, lost.cause = lost.Detail+": "+h.why.Error(), h.why
		}
		h.lost = lost
	}
	return h.lost
}

// state returns until when the lock is held, or the reason of its loss.
func (h *hold) state(now time.Duration) (time.Duration, *Error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.until, h.check(now)
}

// Lock is a lock that this process holds until it is released or lost. A goroutine renews it when two thirds of its
// time remain.
//
// It computes the earliest end of the hold, counted from before the answered request was sent, by a clock that
// includes suspended time. From then on it reports the lock as lost, whether or not the cluster can be reached. The
// protected resource should check the Token nevertheless: a process can be stopped between the check and the action.
type Lock struct {
	locks  locks
	name   string
	token  int64
	lease  string
	hold   *hold
	clock  func() time.Duration
	gone   chan struct{}
	once   sync.Once
	cancel context.CancelFunc
}

// Lock acquires a lock, and waits for it until the context or the wait of the options ends.
func (c *Client) Lock(ctx context.Context, name string, options LockOptions) (*Lock, error) {
	return acquireLock(ctx, clusterLocks{c}, name, options, bootClock)
}

func acquireLock(ctx context.Context, locks locks, name string, o LockOptions,
	clock func() time.Duration) (*Lock, error) {
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.TTL < 100*time.Millisecond || o.TTL > 24*time.Hour {
		return nil, invalid("the TTL must be 100 ms to 24 h, not %s", o.TTL)
	}
	o.Permits = max(o.Permits, 1)
	granted, until, err := acquireHold(ctx, locks, name, o, clock)
	if err != nil {
		return nil, err
	}
	renewing, cancel := context.WithCancel(context.Background())
	l := &Lock{locks: locks, name: name, token: int64(granted.Token), lease: granted.Lease, clock: clock,
		hold: &hold{ttl: o.TTL, until: until}, gone: make(chan struct{}), cancel: cancel}
	// Two goroutines: the requests of one may take as long as the hold.
	go l.watch()
	go l.keep(renewing)
	return l, nil
}

// Token returns the fencing token, which is greater than that of every earlier grant of any lock.
func (l *Lock) Token() int64 { return l.token }

// Name returns the name of the lock.
func (l *Lock) Name() string { return l.name }

// Check returns for how long the lock is held at least, or the reason why it is no longer held.
func (l *Lock) Check() (time.Duration, error) {
	now := l.clock()
	until, lost := l.hold.state(now)
	if lost != nil {
		// The goroutines that would report it may have been stopped with the process.
		l.end()
		return 0, lost
	}
	return until - now, nil
}

// Held returns whether the lock is held.
func (l *Lock) Held() bool {
	_, err := l.Check()
	return err == nil
}

// Lost is closed when the lock is lost or released; Check has the reason. Work that depends on the lock must then stop.
func (l *Lock) Lost() <-chan struct{} { return l.gone }

// Release releases the lock, also if the context has ended. It fails if no node confirmed that: the hold then expires.
// A lost lock is no error: it is released by one short attempt, because its holder must act on the loss.
func (l *Lock) Release(ctx context.Context) error {
	_, lost := l.hold.state(l.clock())
	l.hold.mutex.Lock()
	l.hold.lose(&Error{Code: "lock-lost", Reason: "released", Detail: "the lock was released"})
	l.hold.mutex.Unlock()
	l.end()
	if lost != nil {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), leastRenewal)
		defer cancel()
		_ = l.locks.release(short, l.name, l.lease)
		return nil
	}
	ctx, cancel := notEnded(ctx, releasing)
	defer cancel()
	return releaseHold(ctx, l.locks, l.name, l.lease)
}

func (l *Lock) end() {
	l.once.Do(func() {
		l.cancel()
		close(l.gone)
	})
}

func (l *Lock) watch() {
	for {
		left, err := l.Check()
		if err != nil {
			return
		}
		timer := time.NewTimer(min(lookEvery, left))
		select {
		case <-timer.C:
		case <-l.gone:
		}
		timer.Stop()
	}
}

func (l *Lock) keep(ctx context.Context) {
	// The end of the pause after a failed renewal.
	var notBefore time.Duration
	for {
		now := l.clock()
		until, lost := l.hold.state(now)
		if lost != nil {
			l.end()
			return
		}
		// Two thirds of the known time remain as a reserve for failed renewals.
		wait := max(until-l.hold.ttl/3*2, notBefore) - now
		if wait <= 0 {
			wait = l.renew(ctx, now, until-now)
			notBefore = l.clock() + wait
		}
		if sleep(ctx, min(wait, lookEvery)) != nil {
			return
		}
	}
}

// renew sends one renewal, and returns the pause before the next look.
func (l *Lock) renew(ctx context.Context, now, left time.Duration) time.Duration {
	limit := min(max(l.hold.ttl/3, leastRenewal), left)
	held, err := l.locks.renew(ctx, l.name, l.lease, l.hold.ttl, limit)
	if err == nil {
		l.hold.renewed(held.ExpiresInMS, now, l.clock())
	} else if ctx.Err() == nil && !l.hold.refused(as(err)) {
		return min(l.hold.ttl/20, time.Second)
	}
	return 0
}
