package seqd

import (
	"context"
	"fmt"
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
type Ranges struct {
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
	// Err is the reason why nothing was returned.
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
	r := &Ranges{client: c, name: name, size: size, due: make(chan struct{}, 1), closing: closing, cancel: cancel,
		ended: make(chan struct{}), current: segment{increment: 1}}
	go r.keep()
	return r, nil
}

// Next returns the next value. It waits for a segment for at most 5 s.
func (r *Ranges) Next(ctx context.Context) (int64, error) {
	r.mutex.Lock()
	if r.drawn < r.current.count {
		value := r.draw()
		r.mutex.Unlock()
		return value, nil
	}
	r.mutex.Unlock()
	ctx, cancel := context.WithTimeout(ctx, rangesPatience)
	defer cancel()
	for {
		changed := r.changed.next()
		r.mutex.Lock()
		if r.closing.Err() == nil && r.drawn == r.current.count && r.next != nil {
			r.current, r.next, r.drawn = *r.next, nil, 0
		}
		if r.drawn < r.current.count {
			value := r.draw()
			r.mutex.Unlock()
			return value, nil
		}
		last, permanent := r.err, r.permanent
		r.mutex.Unlock()
		if r.closing.Err() != nil {
			return 0, &Error{Code: "closed", Detail: "the ranges are closed"}
		}
		if permanent {
			return 0, last
		}
		r.request()
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
func (r *Ranges) draw() int64 {
	value := r.current.at(r.drawn)
	r.drawn++
	if r.next == nil && r.drawn*10 >= r.current.count {
		r.request()
	}
	return value
}

// request wakes the goroutine that fetches segments.
func (r *Ranges) request() {
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// Status returns the current state.
func (r *Ranges) Status() RangesStatus {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	status := RangesStatus{Available: r.current.count - r.drawn, Abandoned: r.abandoned}
	if r.next != nil {
		status.Available += r.next.count
	}
	if r.err != nil {
		status.Err = r.err
	}
	return status
}

func (r *Ranges) keep() {
	defer close(r.ended)
	for r.closing.Err() == nil {
		r.mutex.Lock()
		isDue, after := r.next == nil && r.drawn*10 >= r.current.count, r.latest
		r.mutex.Unlock()
		if isDue {
			_ = sleep(r.closing, r.fetch(after))
			continue
		}
		select {
		case <-r.due:
		case <-r.closing.Done():
		}
	}
	r.closed = r.giveBack()
}

// fetch requests one segment, and returns the pause before the next request.
func (r *Ranges) fetch(after string) time.Duration {
	fields := Fields{"size": r.size}
	if after != "" {
		fields["after"] = after
	}
	var out struct {
		Grant                   string
		First, Increment, Count integer
	}
	// Not under `closing`: a request in progress is completed, so that its segment is returned.
	err := r.client.Call(context.Background(), OpGrantSegment, []any{r.name}, fields, &out)
	r.mutex.Lock()
	defer r.mutex.Unlock()
	defer r.changed.wake()
	if err != nil {
		return r.failed(as(err), after)
	}
	granted := segment{out.Grant, int64(out.First), int64(out.Increment), int64(out.Count)}
	if granted.count < 1 || granted.count > MaxSize || granted.increment == 0 {
		return r.failed(&Error{Code: "bad-answer", Detail: "the granted segment is invalid"}, after)
	}
	if r.before != nil && (granted.first > *r.before) != (granted.increment > 0) {
		r.abandoned += granted.count
		return r.failed(&Error{Code: "sequence-cycled", Detail: fmt.Sprintf(
			"the granted values from %d do not follow %d: ranges do not cross the end of a cycle",
			granted.first, *r.before)}, "")
	}
	last := granted.at(granted.count - 1)
	r.next, r.latest, r.before, r.err, r.permanent = &granted, granted.grant, &last, nil, false
	return r.pace.afterSuccess(0)
}

// failed records a failed request. The caller holds the mutex.
func (r *Ranges) failed(failed *Error, after string) time.Duration {
	isUnknown := failed.Code == "outcome-unknown" || failed.Code == "bad-answer" || failed.Code == "internal"
	isTransient := isUnknown || failed.Retryable
	if isUnknown {
		r.abandoned += r.size
	}
	if !isTransient && after != "" && r.latest != "" {
		// A restored cluster does not accept the grants of its predecessor.
		r.latest = ""
		return 0
	}
	r.err, r.permanent = failed, !isTransient
	return r.pace.after(r.permanent, failed.RetryAfter)
}

// Close permanently stops draws, and returns unused values, so that they are granted again, also if the context has
// ended.
func (r *Ranges) Close(ctx context.Context) ClosedRanges {
	// A request in progress may precede the return.
	ctx, cancel := notEnded(ctx, 2*rangesPatience)
	defer cancel()
	r.cancel()
	r.changed.wake()
	select {
	case <-r.ended:
		return r.closed
	case <-ctx.Done():
		return ClosedRanges{Err: &Error{Code: "no-answer", cause: ctx.Err(),
			Detail: "no response before the context ended: unused values may be lost"}}
	}
}

// tail ends the draws, and returns the grant to name, the unused values that end with it, how many of them belong to
// it, and unused values of another run, which are lost.
func (r *Ranges) tail() (grant string, unused, ofGrant, lost int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	ofCurrent := r.current.count - r.drawn
	grant, unused, ofGrant = r.current.grant, ofCurrent, ofCurrent
	if r.next != nil {
		grant, unused, ofGrant, lost = r.next.grant, r.next.count, r.next.count, ofCurrent
		if r.current.at(r.current.count) == r.next.first {
			unused, lost = ofCurrent+ofGrant, 0
		}
	}
	r.drawn, r.next = r.current.count, nil
	return grant, unused, ofGrant, lost
}

func (r *Ranges) giveBack() ClosedRanges {
	grant, unused, ofGrant, lost := r.tail()
	all := unused + lost
	if unused == 0 {
		return ClosedRanges{Lost: all}
	}
	ctx, cancel := context.WithTimeout(context.Background(), rangesPatience)
	defer cancel()
	var why error
	for ctx.Err() == nil {
		var out struct{ Returned int64 }
		why = r.client.Call(ctx, OpReturnSegment, []any{r.name, grant}, Fields{"unused": unused}, &out)
		if why == nil {
			return ClosedRanges{Returned: out.Returned, Lost: all - min(out.Returned, all)}
		}
		if failed := as(why); failed.Retryable || failed.isSilence() {
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
