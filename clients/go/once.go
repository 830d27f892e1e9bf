package seqd

import (
	"context"
	"encoding/json"
	"time"
)

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
// (docs/IDEMPOTENCY.md). The result is written and read as JSON. replayed is true if another call produced it.
func Once[T any](ctx context.Context, c *Client, key string, o OnceOptions,
	work func(context.Context, Turn) (T, error)) (value T, replayed bool, err error) {
	turn, err := c.begin(ctx, key, o)
	if err != nil {
		return value, false, err
	}
	if turn.State == "done" {
		if err := json.Unmarshal(turn.Result, &value); err != nil {
			return value, true, &Error{Code: "bad-answer", cause: err,
				Detail: "the stored result cannot be read: " + err.Error()}
		}
		return value, true, nil
	}
	value, written, err := perform(ctx, c, key, turn, work)
	if err != nil {
		return value, false, err
	}
	return value, false, c.complete(ctx, key, turn.Claim, written)
}

// perform performs the work. If it fails or panics, the claim ends, so that the next caller need not wait for it.
func perform[T any](ctx context.Context, c *Client, key string, turn begun,
	work func(context.Context, Turn) (T, error)) (value T, written json.RawMessage, err error) {
	isDone := false
	defer func() {
		if !isDone {
			abandon, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultTimeout)
			defer cancel()
			_ = c.Call(abandon, OpAbandonKey, []any{key}, Fields{"claim": turn.Claim}, &struct{}{})
		}
	}()
	value, err = work(ctx, Turn{int64(turn.Token), int64(turn.Attempt)})
	if err != nil {
		return value, nil, err
	}
	if written, err = json.Marshal(value); err != nil {
		return value, nil, invalid("the result cannot be written as JSON: %v", err)
	}
	isDone = true
	return value, written, nil
}

func (c *Client) begin(ctx context.Context, key string, o OnceOptions) (begun, error) {
	orDefault := func(value, otherwise time.Duration) time.Duration {
		if value == 0 {
			return otherwise
		}
		return value
	}
	until := time.Now().Add(orDefault(o.Patience, time.Minute))
	request := Fields{"ttl_ms": orDefault(o.TTL, 24*time.Hour).Milliseconds(), "fingerprint": o.Fingerprint,
		"claim_ttl_ms": orDefault(o.ClaimTTL, time.Minute).Milliseconds(), "nonce": newNonce()}
	for {
		var out begun
		err := c.Call(ctx, OpBeginKey, []any{key}, request, &out)
		if err == nil {
			return out, nil
		}
		failed := as(err)
		left := time.Until(until)
		mayPass := failed.Retryable || failed.Code == "outcome-unknown" || failed.Code == "no-answer"
		if !mayPass || left <= 0 || ctx.Err() != nil {
			return out, err
		}
		wait := again
		if failed.RetryAfter > 0 {
			wait = failed.RetryAfter
		}
		if sleep(ctx, min(wait, left)) != nil {
			return out, err
		}
	}
}

// complete stores the result. The request is safe to repeat.
func (c *Client) complete(ctx context.Context, key, claim string, result json.RawMessage) error {
	for attempts := 1; ; attempts++ {
		err := c.Call(ctx, OpCompleteKey, []any{key}, Fields{"claim": claim, "result": result}, &struct{}{})
		if err == nil {
			return nil
		}
		if as(err).Code == "lease-lost" {
			return &Error{Code: "took-too-long", cause: err,
				Detail: "the work was done, but its claim had expired: " + err.Error()}
		}
		if attempts == 5 || sleep(ctx, again) != nil {
			return &Error{Code: "not-kept", cause: err,
				Detail: "the work was done, but it is unknown whether its result was stored: " + err.Error()}
		}
	}
}
