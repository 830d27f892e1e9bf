package seqd

import (
	"context"
	"math"
	"time"
)

// acquireHold acquires a lock. One acquisition is repeated with the same nonce until it has a response.
func acquireHold(ctx context.Context, locks locks, name string, o LockOptions,
	clock func() time.Duration) (heldLock, time.Duration, error) {
	ends := endOfWait(ctx, o, clock())
	// wasSent is true if the cluster may have granted the lock to this nonce.
	nonce, wasSent := newNonce(), false
	for {
		wait := max(0, min(ends-clock(), longestRound))
		request := Fields{"owner": o.Owner, "ttl_ms": o.TTL.Milliseconds(), "wait_ms": wait.Milliseconds(), "nonce": nonce,
			"permits": o.Permits, "shared": o.Shared, "lock_delay_ms": o.LockDelay.Milliseconds()}
		sent := clock()
		held, err := locks.acquire(ctx, name, request)
		if err == nil {
			until, isHeld, err := confirm(ctx, locks, name, o, held, sent, clock)
			if isHeld {
				return held, until, nil
			}
			// The hold expired before it was confirmed, or the response to an applied renewal was lost.
			giveBack(locks, name, held.Lease)
			if err != nil {
				return heldLock{}, 0, err
			}
			nonce, wasSent = newNonce(), false
			continue
		}
		failed := as(err)
		isOver := ends <= clock() || ctx.Err() != nil
		// The response to an earlier request may be the one that was cut off.
		wasSent = wasSent || failed.isUnanswered()
		if wasSent && ctx.Err() != nil {
			withdraw(locks, name, request)
		}
		switch verdict := verdictOf(failed); {
		case isOver, verdict == verdictNever, verdict == verdictNotHeld:
			return heldLock{}, 0, failed
		case verdict == verdictHeld:
			// The wait of one request has ended, and with it the place in the queue.
			nonce, wasSent = newNonce(), false
		default:
			_ = sleep(ctx, again)
		}
	}
}

// endOfWait returns when the wait for the lock ends. That is before the deadline of the context, so that the response
// arrives which says that another caller holds the lock.
func endOfWait(ctx context.Context, o LockOptions, now time.Duration) time.Duration {
	ends := time.Duration(math.MaxInt64)
	if o.Wait != nil {
		ends = now + *o.Wait
	}
	if deadline, ok := ctx.Deadline(); ok {
		ends = min(ends, now+time.Until(deadline)-grace)
	}
	return ends
}

// confirm renews a hold after a wait, because its known time is counted from before the wait.
func confirm(ctx context.Context, locks locks, name string, o LockOptions, held heldLock, sent time.Duration,
	clock func() time.Duration) (time.Duration, bool, error) {
	until := lasts(held.ExpiresInMS, sent, o.TTL)
	if until-clock() > o.TTL/2 {
		return until, true, nil
	}
	// The grant may be as recent as the response.
	over := clock() + o.TTL
	for {
		sent := clock()
		renewed, err := locks.renew(ctx, name, held.Lease, o.TTL, max(o.TTL/3, leastRenewal))
		if err == nil {
			return lasts(renewed.ExpiresInMS, sent, o.TTL), true, nil
		}
		switch verdict := verdictOf(as(err)); {
		case ctx.Err() != nil, verdict == verdictNever:
			return 0, false, err
		case verdict != verdictAgain, over <= clock():
			return 0, false, nil
		}
		_ = sleep(ctx, min(again, o.TTL/10))
	}
}

// withdraw releases a hold that was granted to a request whose response was cut off by the end of the context. The
// caller waits for it, because its process may end next.
func withdraw(locks locks, name string, request Fields) {
	ctx, cancel := context.WithTimeout(context.Background(), leastRenewal)
	defer cancel()
	request["wait_ms"] = int64(0)
	if held, err := locks.acquire(ctx, name, request); err == nil {
		giveBack(locks, name, held.Lease)
	}
}

// giveBack releases a hold that was not returned to the caller. If the cluster does not respond, the hold expires.
func giveBack(locks locks, name, lease string) {
	ctx, cancel := context.WithTimeout(context.Background(), releasing)
	defer cancel()
	_ = releaseHold(ctx, locks, name, lease)
}

// releaseHold releases a hold, with a few retries because others wait for it. An ended hold counts as released.
func releaseHold(ctx context.Context, locks locks, name, lease string) error {
	for attempts := 1; ; attempts++ {
		err := locks.release(ctx, name, lease)
		if err == nil {
			return nil
		}
		switch verdict := verdictOf(as(err)); {
		case verdict == verdictHeld, verdict == verdictNotHeld:
			return nil
		case verdict == verdictNever, attempts == 5, ctx.Err() != nil:
			return err
		}
		_ = sleep(ctx, time.Duration(attempts)*lookEvery)
	}
}
