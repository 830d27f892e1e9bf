// Package checks has the named checks of a client program, as in `python/checks.py`.
package checks

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Addresses of the servers, the kind of server, and a prefix that no other run has used.
var (
	Redis     = env("REDIS", "127.0.0.1:6379")
	Nodes     = strings.Split(env("REDIS_ALL", Redis), ",")
	Memcached = env("MEMCACHED", "127.0.0.1:11211")
	Target    = env("TARGET", "seqd")
	Run       = env("RUN", fmt.Sprintf("r%d", os.Getpid()))
)

var failures atomic.Int64

func env(key, otherwise string) string {
	if value := os.Getenv(key); value != "" {
		return value
	}
	return otherwise
}

// Check prints the result of one check.
func Check(name string, passed bool, value any) {
	word := "ok"
	if !passed {
		word = "FAILED"
		failures.Add(1)
	}
	text := strings.Join(strings.Fields(fmt.Sprint(value)), " ")
	fmt.Printf("%s %s: %.200s\n", word, name, text)
}

// Equal checks a value and its error.
func Equal(name string, got any, err error, expected any) {
	if err != nil {
		Check(name, false, err)
	} else if !reflect.DeepEqual(got, expected) {
		Check(name, false, fmt.Sprintf("%v, expected %v", got, expected))
	} else {
		Check(name, true, got)
	}
}

// Fails checks that the error has the text.
func Fails(name string, err error, text string) {
	Check(name, err != nil && strings.Contains(err.Error(), text), err)
}

// Must ends the program if there is an error.
func Must[T any](value T, err error) T {
	if err != nil {
		Check("setup", false, err)
		Done()
	}
	return value
}

// Until waits for the condition, ten seconds at most.
func Until(condition func() bool) bool {
	end := time.Now().Add(10 * time.Second)
	for ; time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// Contend runs the critical section in goroutines and checks that work never overlaps itself.
func Contend(name string, section func(contender int, work func()) error) {
	const contenders, turns = 6, 5
	var inside, overlaps, failed atomic.Int64
	var last atomic.Value
	done := 0
	work := func() {
		if inside.Add(1) > 1 {
			overlaps.Add(1)
		}
		seen := done
		time.Sleep(10 * time.Millisecond)
		done = seen + 1
		inside.Add(-1)
	}
	last.Store("")
	var group sync.WaitGroup
	for contender := range contenders {
		group.Go(func() {
			for range turns {
				if err := section(contender, work); err != nil {
					failed.Add(1)
					last.Store(err.Error())
				}
			}
		})
	}
	group.Wait()
	passed := done == contenders*turns && overlaps.Load() == 0 && failed.Load() == 0
	Check(name, passed, fmt.Sprintf("%d goroutines, %d of %d turns, %d overlaps %v",
		contenders, done, contenders*turns, overlaps.Load(), last.Load()))
}

// Is checks that the error is the expected one.
func Is(name string, err, expected error) {
	Check(name, errors.Is(err, expected), err)
}

// Differences calls every example of `differences.tsv` on a counter and an unused name.
func Differences(call func(words []any) (any, error), counter, unused string) {
	table := Must(os.ReadFile("../differences.tsv"))
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n")[1:] {
		row := strings.Split(line, "\t")
		if row[0] == "-" {
			continue
		}
		example := strings.NewReplacer("COUNTER", counter, "UNUSED", unused).Replace(row[0])
		var words []any
		for _, word := range strings.Split(example, " ") {
			words = append(words, word)
		}
		value, err := call(words)
		reply := fmt.Sprint(value)
		if err != nil {
			reply = "-" + err.Error()
		}
		Check("differs: "+example, regexp.MustCompile("^("+row[3]+")$").MatchString(reply), reply)
	}
}

// Done ends the program with 1 if a check failed.
func Done() {
	if failures.Load() > 0 {
		os.Exit(1)
	}
	os.Exit(0)
}
