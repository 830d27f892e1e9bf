package seqd

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

const (
	// leastAgain is the shortest pause that a response can request.
	leastAgain = 20 * time.Millisecond
	// mostStores bounds the requests that store one result.
	mostStores = 5
	// completing bounds the storing of a result, over all attempts.
	completing = mostStores * (defaultTimeout + grace + again)
)

// notKept is the result of a key whose work was done, but whose result cannot be stored.
type notKept struct {
	Reason string `json:"seqd_result_not_kept"`
}

func (n notKept) err() *Error {
	return &Error{Code: "not-kept", Detail: "the work was done, but its result " + n.Reason,
		Hint: "later callers get this error too; return JSON of at most 16 KiB"}
}

// OnceOptions are the options of Once.
type OnceOptions struct {
	// Fingerprint identifies the work, such as a hash of the request. Another one for the key is refused.
	Fingerprint string
	// TTL is the lifetime of the key and its result, a day by default.
	TTL time.Duration
	// ClaimTTL is the longest duration of the work, a minute by default. After it another caller can receive a claim.
	ClaimTTL time.Duration
	// Patience is the longest wait for another caller that performs the work, a minute by default.
	Patience time.Duration
}

// Turn is the argument of the work.
type Turn struct {
	// Token is a fencing token for the changes of the work.
	Token int64
	// Attempt is above 1 if an earlier claim ended without a result: check first whether the work was done.
	Attempt int64
}

type begun struct {
	State          string
	Claim          string
	Token, Attempt integer
	Result         json.RawMessage
}

// Once performs work unless it was already performed for this key, and returns its result to all callers
// (docs/IDEMPOTENCY.md), as it was written and read as JSON. replayed is true if another call produced it. If the
// result cannot be stored, all callers get not-kept. After outcome-unknown, a later caller may repeat the work. The end
// of the context does not keep a result from being stored.
func Once[T any](ctx context.Context, c *Client, key string, o OnceOptions,
	work func(context.Context, Turn) (T, error)) (value T, replayed bool, err error) {
	turn, err := c.begin(ctx, key, o)
	if err != nil {
		return value, false, err
	}
	if replayed = turn.State == "done"; !replayed {
		done, err := perform(ctx, c, key, turn, work)
		if err != nil {
			return value, false, err
		}
		if turn.Result, err = c.complete(ctx, key, turn.Claim, done); err != nil {
			return done, false, err
		}
	}
	var failed notKept
	if json.Unmarshal(turn.Result, &failed) == nil && failed.Reason != "" {
		return value, replayed, failed.err()
	}
	if err := json.Unmarshal(turn.Result, &value); err != nil {
		return value, replayed, &Error{Code: "bad-answer", cause: err,
			Detail: "the stored result cannot be read: " + err.Error()}
	}
	return value, replayed, nil
}

// perform performs the work. If it fails or panics, the claim ends, so that the next caller need not wait for it.
func perform[T any](ctx context.Context, c *Client, key string, turn begun,
	work func(context.Context, Turn) (T, error)) (value T, err error) {
	isDone := false
	defer func() {
		if !isDone {
			c.abandon(ctx, key, turn.Claim)
		}
	}()
	value, err = work(ctx, Turn{int64(turn.Token), int64(turn.Attempt)})
	isDone = err == nil
	return value, err
}

// abandon ends a claim, also if the context has ended.
func (c *Client) abandon(ctx context.Context, key, claim string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout+grace)
	defer cancel()
	_ = c.Call(ctx, OpAbandonKey, []any{key}, Fields{"claim": claim}, &struct{}{})
}

// withdraw ends the claim of a request whose response was cut off by the end of the context.
func (c *Client) withdraw(ctx context.Context, key string, request Fields) {
	ctx = context.WithoutCancel(ctx)
	short, cancel := context.WithTimeout(ctx, leastRenewal)
	defer cancel()
	var out begun
	if c.Call(short, OpBeginKey, []any{key}, request, &out) == nil && out.State == "first" {
		c.abandon(ctx, key, out.Claim)
	}
}

func (c *Client) begin(ctx context.Context, key string, o OnceOptions) (begun, error) {
	otherwise := func(value, usual time.Duration) time.Duration {
		if value == 0 {
			return usual
		}
		return value
	}
	until := time.Now().Add(otherwise(o.Patience, time.Minute))
	request := Fields{"ttl_ms": otherwise(o.TTL, 24*time.Hour).Milliseconds(), "fingerprint": o.Fingerprint,
		"claim_ttl_ms": otherwise(o.ClaimTTL, time.Minute).Milliseconds(), "nonce": newNonce()}
	for wasSent := false; ; {
		var out begun
		err := c.Call(ctx, OpBeginKey, []any{key}, request, &out)
		if err == nil {
			return out, nil
		}
		failed := as(err)
		left := time.Until(until)
		mayPass := failed.Retryable || failed.Code == "outcome-unknown" || failed.Code == "no-answer"
		// The response to an earlier request may be the one that was cut off.
		wasSent = wasSent || failed.isUnanswered()
		if ctx.Err() != nil && wasSent {
			c.withdraw(ctx, key, request)
		}
		if !mayPass || left <= 0 || ctx.Err() != nil {
			return out, err
		}
		wait := again
		if failed.RetryAfter > 0 {
			wait = max(failed.RetryAfter, leastAgain)
		}
		if sleep(ctx, min(wait, left)) != nil {
			if wasSent {
				c.withdraw(ctx, key, request)
			}
			return out, err
		}
	}
}

// complete stores the result, and returns it as JSON. A key whose result cannot be stored is completed nevertheless,
// because its work must not be done again.
func (c *Client) complete(ctx context.Context, key, claim string, result any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completing)
	defer cancel()
	var failed notKept
	text, err := written(result)
	if err != nil {
		failed.Reason = "is not JSON: " + err.Error()
	} else if refusal, err := c.store(ctx, key, claim, text); err != nil || refusal == nil {
		return text, err
	} else {
		failed.Reason = "was refused: " + refusal.Detail
	}
	// The cluster always has room for a short result, but the token may have been revoked.
	short, _ := written(notKept{strings.ToValidUTF8(failed.Reason[:min(100, len(failed.Reason))], "")})
	refusal, err := c.store(ctx, key, claim, short)
	if err != nil {
		return nil, err
	}
	kept := failed.err()
	if refusal != nil {
		kept.Hint = "its key is still open: another caller begins when the claim expires"
	}
	return nil, kept
}

// store completes the key, which is safe to repeat, or returns why the cluster refuses the result.
func (c *Client) store(ctx context.Context, key, claim string, result json.RawMessage) (refusal *Error, err error) {
	for attempts := 1; ; attempts++ {
		err := c.Call(ctx, OpCompleteKey, []any{key}, Fields{"claim": claim, "result": result}, &struct{}{})
		if err == nil {
			return nil, nil
		}
		failed := as(err)
		if failed.Code == "lease-lost" {
			return nil, &Error{Code: "took-too-long", cause: err,
				Detail: "the work was done, but its claim had expired: " + err.Error()}
		}
		if failed.isRefusal() {
			return failed, nil
		}
		if attempts == mostStores || sleep(ctx, again) != nil {
			return nil, &Error{Code: "outcome-unknown", cause: err,
				Detail: "the work was done, but it is unknown whether its result was stored: " + err.Error()}
		}
	}
}
