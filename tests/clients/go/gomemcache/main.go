// gomemcache: an ID per key, many keys, several goroutines; storage is refused.
package main

import (
	"fmt"
	"strconv"
	"sync"

	"clients/checks"

	"github.com/bradfitz/gomemcache/memcache"
)

func main() {
	client := memcache.New(checks.Memcached)
	last := uint64(0)
	for range 100 {
		item := checks.Must(client.Get("id"))
		id := checks.Must(strconv.ParseUint(string(item.Value), 10, 64))
		if id <= last {
			checks.Check("IDs rise", false, id)
		}
		last = id
	}
	checks.Check("100 Get rise", true, last)

	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprint("key-", i))
	}
	items, err := client.GetMulti(keys)
	values := map[string]bool{}
	for _, item := range items {
		values[string(item.Value)] = true
	}
	checks.Equal("GetMulti of 200 keys gives as many IDs", len(values), err, 200)

	var mutex sync.Mutex
	var group sync.WaitGroup
	unique := map[string]bool{}
	for range 8 {
		group.Go(func() {
			for range 200 {
				item := checks.Must(client.Get("id"))
				mutex.Lock()
				unique[string(item.Value)] = true
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	checks.Equal("8 goroutines, 1600 IDs, all different", len(unique), nil, 1600)

	err = client.Set(&memcache.Item{Key: "id", Value: []byte("1")})
	checks.Check("Set is refused", err != nil, err)
	_, err = client.Increment("id", 1)
	checks.Check("Increment is refused", err != nil, err)
	item, err := client.Get("id")
	checks.Check("Get after the refusals", err == nil && len(item.Value) > 10, err)
	checks.Done()
}
