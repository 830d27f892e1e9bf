// redsync over go-redis: lock, extend, unlock, expiry, set-NX-on-extend, contenders.
package main

import (
	"errors"
	"time"

	"clients/checks"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func main() {
	var nodes []*redsync.Redsync
	for _, address := range checks.Nodes {
		client := redis.NewClient(&redis.Options{Addr: address})
		nodes = append(nodes, redsync.New(goredis.NewPool(client)))
	}
	first, other := nodes[0], nodes[len(nodes)-1]
	name := checks.Run + ":redsync"
	once, brief := redsync.WithTries(1), redsync.WithExpiry(300*time.Millisecond)

	mutex := first.NewMutex(name)
	checks.Equal("Lock", nil, mutex.Lock(), nil)
	var taken *redsync.ErrTaken
	err := other.NewMutex(name, once).Lock()
	checks.Check("a second Lock is ErrTaken", errors.As(err, &taken), err)
	extended, err := mutex.Extend()
	checks.Equal("Extend", extended, err, true)
	valid, err := mutex.Valid()
	checks.Equal("Valid", valid, err, true)

	foreign := other.NewMutex(name, redsync.WithValue("not-the-value"))
	_, err = foreign.Unlock()
	checks.Check("Unlock by another is ErrTaken", errors.As(err, &taken), err)
	_, err = foreign.Extend()
	checks.Check("Extend by another is ErrTaken", errors.As(err, &taken), err)
	unlocked, err := mutex.Unlock()
	checks.Equal("Unlock", unlocked, err, true)
	_, err = mutex.Unlock()
	checks.Is("Unlock twice is ErrLockAlreadyExpired", err, redsync.ErrLockAlreadyExpired)

	short := first.NewMutex(name, brief)
	checks.Equal("Lock for 300 ms", nil, short.Lock(), nil)
	next := other.NewMutex(name, once)
	acquired := checks.Until(func() bool { return next.Lock() == nil })
	checks.Check("an expired lock can be acquired", acquired, "")
	_, err = short.Unlock()
	checks.Check("Unlock after expiry", err != nil, err)
	unlocked, err = next.Unlock()
	checks.Equal("Unlock of the next", unlocked, err, true)

	again := first.NewMutex(name, redsync.WithSetNXOnExtend())
	checks.Equal("Lock with set-NX-on-extend", nil, again.Lock(), nil)
	extended, err = again.Extend()
	checks.Equal("Extend of a held lock", extended, err, true)
	unlocked, err = again.Unlock()
	checks.Equal("Unlock", unlocked, err, true)
	extended, err = again.Extend()
	checks.Equal("Extend acquires a free lock", extended, err, true)
	err = other.NewMutex(name, once).Lock()
	checks.Check("it is held", errors.As(err, &taken), err)
	unlocked, err = again.Unlock()
	checks.Equal("Unlock", unlocked, err, true)

	checks.Contend("contenders exclude each other", func(contender int, work func()) error {
		mutex := nodes[contender%len(nodes)].NewMutex(name,
			redsync.WithTries(1000), redsync.WithRetryDelay(20*time.Millisecond))
		if err := mutex.Lock(); err != nil {
			return err
		}
		work()
		_, err := mutex.Unlock()
		return err
	})
	checks.Done()
}
