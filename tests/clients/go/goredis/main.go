// go-redis: counters, nulls, pipelines and errors, in both protocols.
package main

import (
	"context"
	"fmt"
	"time"

	"clients/checks"

	"github.com/redis/go-redis/v9"
)

func main() {
	for _, protocol := range []int{3, 2} {
		fmt.Println("# protocol", protocol)
		exercise(protocol)
	}
	checks.Done()
}

func exercise(protocol int) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: checks.Redis, Protocol: protocol})
	defer client.Close()
	name := fmt.Sprintf("%s:go-redis:%d", checks.Run, protocol)

	value, err := client.Incr(ctx, name).Result()
	checks.Equal("Incr", value, err, int64(1))
	value, err = client.IncrBy(ctx, name, 99).Result()
	checks.Equal("IncrBy", value, err, int64(100))
	text, err := client.Get(ctx, name).Result()
	checks.Equal("Get", text, err, "100")
	_, err = client.Get(ctx, name+":unknown").Result()
	checks.Check("Get of an unknown name is redis.Nil", err == redis.Nil, err)
	left, err := client.PTTL(ctx, name).Result()
	checks.Equal("PTTL of a counter", left, err, time.Duration(-1))

	pipeline := client.Pipeline()
	for range 100 {
		pipeline.Incr(ctx, name)
	}
	replies, err := pipeline.Exec(ctx)
	checks.Equal("Exec of 100 Incr", len(replies), err, 100)
	for i, reply := range replies {
		if reply.(*redis.IntCmd).Val() != int64(101+i) {
			checks.Check("pipelined replies in order", false, reply)
		}
	}

	lock := name + ":lock"
	acquired, err := client.SetNX(ctx, lock, "me", 1500*time.Millisecond).Result()
	checks.Equal("SetNX with milliseconds (PX)", acquired, err, true)
	acquired, err = client.SetNX(ctx, lock, "you", 2*time.Second).Result()
	checks.Equal("SetNX with seconds (EX) of a held lock", acquired, err, false)
	script := redis.NewScript(
		`if redis.call("get", KEYS[1]) == ARGV[1] then
			return redis.call("del", KEYS[1])
		else
			return 0
		end`)
	value, err = script.Run(ctx, client, []string{lock}, "you").Int64()
	checks.Equal("Script.Run by another", value, err, int64(0))
	value, err = script.Run(ctx, client, []string{lock}, "me").Int64()
	checks.Equal("Script.Run", value, err, int64(1))

	checks.Fails("an error", client.Do(ctx, "NOSUCH").Err(), "ERR unknown command")
	if checks.Target == "seqd" {
		call := func(words []any) (any, error) { return client.Do(ctx, words...).Result() }
		checks.Differences(call, name, name+":unused")
		_, err = client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
			return tx.Incr(ctx, name+":multi").Err()
		})
		checks.Fails("TxPipelined", err, "no transactions")
		ids, err := client.Do(ctx, "SEQD.ID", 3).Slice()
		checks.Equal("SEQD.ID", len(ids), err, 3)
	}
	value, err = client.Incr(ctx, name).Result()
	checks.Equal("Incr at the end", value, err, int64(201))
}
