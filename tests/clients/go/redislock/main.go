// bsm/redislock over go-redis: obtain, metadata, obtain with the own token, TTL, refresh, release,
// contenders.
package main

import (
	"context"
	"time"

	"clients/checks"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	var nodes []*redislock.Client
	for _, address := range checks.Nodes {
		nodes = append(nodes, redislock.New(redis.NewClient(&redis.Options{Addr: address})))
	}
	first, other := nodes[0], nodes[len(nodes)-1]
	name := checks.Run + ":redislock"

	lock := checks.Must(first.Obtain(ctx, name, 5*time.Second, &redislock.Options{Metadata: "host-1"}))
	checks.Equal("Obtain keeps the metadata", lock.Metadata(), nil, "host-1")
	_, err := other.Obtain(ctx, name, 5*time.Second, nil)
	checks.Is("a second Obtain is ErrNotObtained", err, redislock.ErrNotObtained)
	left, err := lock.TTL(ctx)
	checks.Check("TTL", err == nil && left > 3*time.Second && left <= 5*time.Second, left)
	checks.Equal("Refresh", nil, lock.Refresh(ctx, 9*time.Second, nil), nil)
	left, err = lock.TTL(ctx)
	refreshed := err == nil && left > 7*time.Second && left <= 9*time.Second
	checks.Check("TTL after Refresh", refreshed, left)

	same := &redislock.Options{Token: lock.Token(), Metadata: "host-1"}
	again := checks.Must(other.Obtain(ctx, name, 12*time.Second, same))
	left, err = again.TTL(ctx)
	checks.Check("Obtain with the own token", err == nil && left > 9*time.Second, left)
	options := &redislock.Options{Token: lock.Token(), Metadata: "host-2"}
	changed, err := other.Obtain(ctx, name, 9*time.Second, options)
	if checks.Target == "redis" {
		checks.Equal("Obtain with the own token and other metadata", changed.Metadata(), err, "host-2")
		checks.Is("Release of the old value", lock.Release(ctx), redislock.ErrLockNotHeld)
		checks.Equal("Release", nil, changed.Release(ctx), nil)
	} else {
		// The value of a hold does not change.
		checks.Is("Obtain with the own token and other metadata", err, redislock.ErrNotObtained)
		checks.Equal("Release", nil, lock.Release(ctx), nil)
		checks.Is("Release by the second", again.Release(ctx), redislock.ErrLockNotHeld)
	}

	short := checks.Must(first.Obtain(ctx, name, 300*time.Millisecond, nil))
	var next *redislock.Lock
	checks.Check("an expired lock can be obtained", checks.Until(func() bool {
		next, err = other.Obtain(ctx, name, 5*time.Second, nil)
		return err == nil
	}), err)
	err = short.Refresh(ctx, 5*time.Second, nil)
	checks.Is("Refresh after expiry is ErrNotObtained", err, redislock.ErrNotObtained)
	err = short.Release(ctx)
	checks.Is("Release after expiry is ErrLockNotHeld", err, redislock.ErrLockNotHeld)
	checks.Equal("Release of the next", nil, next.Release(ctx), nil)

	checks.Contend("contenders exclude each other", func(contender int, work func()) error {
		retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)}
		lock, err := nodes[contender%len(nodes)].Obtain(ctx, name, 10*time.Second, retry)
		if err != nil {
			return err
		}
		work()
		return lock.Release(ctx)
	})
	checks.Done()
}
