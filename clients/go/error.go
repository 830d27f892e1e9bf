package seqd

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Error is the reason why a call has no result. Find it with errors.As.
//
// Code is the code of a node's response (docs/PROBLEMS.md), or one of the client: unreachable (the request was not
// sent), no-answer (it was sent, and is safe to repeat), outcome-unknown (it may have taken effect), bad-answer,
// invalid-argument; of an IDGenerator: no-lease, window-ended, clock-behind, clock-jumped, clock-ahead, busy, closed,
// not-released, bad-lease, unknown-layout; of Ranges: sequence-cycled, closed; of a Lock: lock-lost; of Once:
// took-too-long, not-kept (both: the work was done).
type Error struct {
	Code   string
	Detail string
	// Hint is the remedy, if there is one.
	Hint string
	// Retryable is true if the request certainly had no effect and may be repeated.
	Retryable bool
	// Reason is why a lock was lost: ran-out, taken-away or released.
	Reason string
	// Status is the HTTP status of the response, or 0 without one.
	Status int
	// RetryAfter is the time after which a repetition can succeed, or 0 if it is not known.
	RetryAfter time.Duration
	// Problem is the whole response, such as the holder of a lock.
	Problem json.RawMessage

	cause error
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s (%s)", e.Detail, e.Code)
	if e.Hint != "" {
		text += "; hint: " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.cause }

func invalid(format string, arguments ...any) *Error {
	return &Error{Code: "invalid-argument", Detail: fmt.Sprintf(format, arguments...)}
}

// as returns the error as an *Error; every error of this package is one.
func as(err error) *Error {
	var found *Error
	if errors.As(err, &found) {
		return found
	}
	return &Error{Code: "bad-answer", Detail: err.Error(), cause: err}
}

// isSilence returns whether no node gave an answer of its own, so that the next attempt may succeed. A proxy that
// cannot reach a node responds with a status of 500 or above.
func (e *Error) isSilence() bool {
	return e.Code == "unreachable" || e.isUnanswered() || e.Code == "bad-answer" && e.Status >= 500
}

// isUnanswered returns whether the request was sent and may have taken effect.
func (e *Error) isUnanswered() bool { return e.Code == "no-answer" || e.Code == "outcome-unknown" }

// isRefusal returns whether a node refused the request for a permanent reason.
func (e *Error) isRefusal() bool {
	return e.Code != "bad-answer" && e.Status >= 400 && e.Status < 500 && !e.Retryable
}
