package seqd

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// MaxSize is the largest segment that a node grants.
const MaxSize = 100_000_000

// rangesPatience is how long Next waits for a segment: a slow election and the recovery after it.
const rangesPatience = 5 * time.Second

type segment struct {
	grant                   string
	first, increment, count int64
}

func (s segment) at(offset int64) int64 { return s.first + s.increment*offset }

// Ranges draws the values of a segment sequence from memory (docs/ALLOCATORS.md). A granted segment belongs to it for
// good: no other caller receives its values, whatever becomes of the process, its clock or its connection.
//
// A goroutine fetches the next segment when a tenth of the current one is used. Values increase (decrease, if the
// increment is negative) in the order of the draws. It is safe for concurrent use. Close returns unused values; those
// of a killed process are lost, at most two segments.
type Ranges struct{ keeper *rangesKeeper }

// rangesKeeper is the goroutine of ranges and what it shares with them. It does not refer to Ranges, so that ranges
// without an owner are collected.
type rangesKeeper struct {
	client  *Client
	name    string
	size    int64
	pace    pace
	due     chan struct{}
	changed waiters
	closing context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	closed  ClosedRanges

	mutex   sync.Mutex
	current segment
	drawn   int64
	next    *segment
	// latest is the grant that the next one extends.
	latest    string
	before    *int64
	abandoned int64
	err       *Error
	permanent bool
}

// ClosedRanges is the result of closing: values that were returned to the sequence, and values that are a gap.
type ClosedRanges struct {
	Returned, Lost int64
	// Err is the reason why nothing was returned, or why it is unknown whether something was.
	Err error
}

// RangesStatus is the current state, for a health check. Abandoned counts values of segments that may have been granted
// and are never used.
type RangesStatus struct {
	Available, Abandoned int64
	Err                  error
}

// Ranges begins to draw values of a segment sequence in segments of this size.
func (c *Client) Ranges(name string, size int64) (*Ranges, error) {
	if size < 1 || size > MaxSize {
		return nil, invalid("the size of a segment is 1 to %d, not %d", MaxSize, size)
	}
	closing, cancel := context.WithCancel(context.Background())
	k := &rangesKeeper{client: c, name: name, size: size, due: make(chan struct{}, 1), closing: closing, cancel: cancel,
		ended: make(chan struct{}), current: segment{increment: 1}}
	go k.keep()
	r := &Ranges{k}
	// Unused values are returned in the background.
	runtime.SetFinalizer(r, func(r *Ranges) { r.keeper.cancel() })
	return r, nil
}

// Next returns the next value. It waits for a segment for at most 5 s.
func (r *Ranges) Next(ctx context.Context) (int64, error) {
	defer runtime.KeepAlive(r)
	return r.keeper.drawNext(ctx)
}

// Status returns the current state.
func (r *Ranges) Status() RangesStatus { return r.keeper.status() }

// Close permanently stops draws, and returns unused values, so that they are granted again, also if the context has
// ended.
func (r *Ranges) Close(ctx context.Context) ClosedRanges {
	defer runtime.KeepAlive(r)
	return r.keeper.close(ctx)
}

func (k *rangesKeeper) drawNext(ctx context.Context) (int64, error) {
	k.mutex.Lock()
	if k.drawn < k.current.count {
		value := k.draw()
		k.mutex.Unlock()
		return value, nil
	}
	k.mutex.Unlock()
	ctx, cancel := context.WithTimeout(ctx, rangesPatience)
	defer cancel()
	for {
		changed := k.changed.next()
		k.mutex.Lock()
		if k.closing.Err() == nil && k.drawn == k.current.count && k.next != nil {
			k.current, k.next, k.drawn = *k.next, nil, 0
		}
		if k.drawn < k.current.count {
			value := k.draw()
			k.mutex.Unlock()
			return value, nil
		}
		last, permanent := k.err, k.permanent
		k.mutex.Unlock()
		if k.closing.Err() != nil {
			return 0, &Error{Code: "closed", Detail: "the ranges are closed"}
		}
		if permanent {
			return 0, last
		}
		k.request()
		select {
		case <-changed:
		case <-ctx.Done():
			if last != nil {
				return 0, last
			}
			return 0, &Error{Code: "no-answer", Detail: "no segment was granted in time", Retryable: true, cause: ctx.Err()}
		}
	}
}

// draw draws a value of the current segment. The caller holds the mutex.
func (k *rangesKeeper) draw() int64 {
	value := k.current.at(k.drawn)
	k.drawn++
	if k.next == nil && k.drawn*10 >= k.current.count {
		k.request()
	}
	return value
}

// request wakes the goroutine that fetches segments.
func (k *rangesKeeper) request() {
	select {
	case k.due <- struct{}{}:
	default:
	}
}

func (k *rangesKeeper) status() RangesStatus {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	status := RangesStatus{Available: k.current.count - k.drawn, Abandoned: k.abandoned}
	if k.next != nil {
		status.Available += k.next.count
	}
	if k.err != nil {
		status.Err = k.err
	}
	return status
}

func (k *rangesKeeper) keep() {
	defer close(k.ended)
	for k.closing.Err() == nil {
		k.mutex.Lock()
		isDue, after := k.next == nil && k.drawn*10 >= k.current.count, k.latest
		k.mutex.Unlock()
		if isDue {
			_ = sleep(k.closing, k.fetch(after))
			continue
		}
		select {
		case <-k.due:
		case <-k.closing.Done():
		}
	}
	k.closed = k.giveBack()
}

// fetch requests one segment, and returns the pause before the next request.
func (k *rangesKeeper) fetch(after string) time.Duration {
	fields := Fields{"size": k.size}
	if after != "" {
		fields["after"] = after
	}
	var out struct {
		Grant                   string
		First, Increment, Count integer
	}
	// Not under `closing`: a request in progress is completed, so that its segment is returned.
	err := k.client.Call(context.Background(), OpGrantSegment, []any{k.name}, fields, &out)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	defer k.changed.wake()
	if err != nil {
		return k.failed(as(err), after)
	}
	granted := segment{out.Grant, int64(out.First), int64(out.Increment), int64(out.Count)}
	if granted.count < 1 || granted.count > MaxSize || granted.increment == 0 {
		return k.failed(&Error{Code: "bad-answer", Detail: "the granted segment is invalid"}, after)
	}
	if k.before != nil && (granted.first > *k.before) != (granted.increment > 0) {
		k.abandoned += granted.count
		return k.failed(&Error{Code: "sequence-cycled", Detail: fmt.Sprintf(
			"the granted values from %d do not follow %d: ranges do not cross the end of a cycle",
			granted.first, *k.before)}, "")
	}
	last := granted.at(granted.count - 1)
	k.next, k.latest, k.before, k.err, k.permanent = &granted, granted.grant, &last, nil, false
	return k.pace.afterSuccess(0)
}

// failed records a failed request. The caller holds the mutex.
func (k *rangesKeeper) failed(failed *Error, after string) time.Duration {
	isUnknown := failed.Code == "outcome-unknown" || failed.Code == "bad-answer" || failed.Code == "internal"
	isTransient := isUnknown || failed.Retryable
	if isUnknown {
		k.abandoned += k.size
	}
	if !isTransient && after != "" && k.latest != "" {
		// A restored cluster does not accept the grants of its predecessor.
		k.latest = ""
		return 0
	}
	k.err, k.permanent = failed, !isTransient
	return k.pace.after(k.permanent, failed.RetryAfter)
}

func (k *rangesKeeper) close(ctx context.Context) ClosedRanges {
	// A request in progress may precede the return.
	ctx, cancel := notEnded(ctx, 2*rangesPatience)
	defer cancel()
	k.cancel()
	k.changed.wake()
	select {
	case <-k.ended:
		return k.closed
	case <-ctx.Done():
		return ClosedRanges{Err: &Error{Code: "no-answer", cause: ctx.Err(),
			Detail: "no response before the context ended: unused values may be lost"}}
	}
}

// tail ends the draws, and returns the grant to name, the unused values that end with it, how many of them belong to
// it, and unused values of another run, which are lost.
func (k *rangesKeeper) tail() (grant string, unused, ofGrant, lost int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	ofCurrent := k.current.count - k.drawn
	grant, unused, ofGrant = k.current.grant, ofCurrent, ofCurrent
	if k.next != nil {
		grant, unused, ofGrant, lost = k.next.grant, k.next.count, k.next.count, ofCurrent
		if k.current.at(k.current.count) == k.next.first {
			unused, lost = ofCurrent+ofGrant, 0
		}
	}
	k.drawn, k.next = k.current.count, nil
	return grant, unused, ofGrant, lost
}

func (k *rangesKeeper) giveBack() ClosedRanges {
	grant, unused, ofGrant, lost := k.tail()
	all := unused + lost
	if unused == 0 {
		return ClosedRanges{Lost: all}
	}
	ctx, cancel := context.WithTimeout(context.Background(), rangesPatience)
	defer cancel()
	var why, unanswered error
	for ctx.Err() == nil {
		var out struct{ Returned int64 }
		why = k.client.Call(ctx, OpReturnSegment, []any{k.name, grant}, Fields{"unused": unused}, &out)
		if why == nil {
			return ClosedRanges{Returned: out.Returned, Lost: all - min(out.Returned, all)}
		}
		failed := as(why)
		if failed.Code == "grant-superseded" && unanswered != nil {
			// The return itself ends the grant, so the two cases cannot be distinguished.
			return ClosedRanges{Lost: lost, Err: &Error{Code: "outcome-unknown", cause: why, Detail: fmt.Sprintf(
				"it is unknown whether %d values were returned: %v; then: %v", all-lost, unanswered, why)}}
		}
		if failed.Retryable || failed.isSilence() {
			if failed.isUnanswered() || failed.Code == "bad-answer" {
				unanswered = why
			}
			_ = sleep(ctx, again)
			continue
		}
		// The previous segment may belong to another run. Only the cluster can decide this.
		if unused == ofGrant {
			break
		}
		unused = ofGrant
	}
	return ClosedRanges{Lost: all, Err: why}
}
