package seqd

import (
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const defaultPort = "7400"

// lately is the time for which a response counts as a sign of life.
const lately = 10 * time.Second

// longestSilence is the longest silence of an endpoint while others are left: a call ends within 2.5 s if the first one
// hangs.
const longestSilence = 1500 * time.Millisecond

// endpoint is the address of a node.
type endpoint struct{ scheme, authority string }

func (e endpoint) String() string { return e.authority }

func parseEndpoint(written string, isSecure bool) (endpoint, error) {
	text := strings.TrimSpace(written)
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "http", text
		if isSecure {
			scheme = "https"
		}
	}
	if scheme != "http" && scheme != "https" {
		return endpoint{}, invalid("%q is not an endpoint: the scheme must be http or https", text)
	}
	authority := strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(authority, "/?#@") {
		return endpoint{}, invalid("%q is not an endpoint: an endpoint has only a host and a port", text)
	}
	if !strings.Contains(authority[strings.LastIndex(authority, "]")+1:], ":") {
		authority += ":" + defaultPort
	}
	parsed, err := url.Parse(scheme + "://" + authority)
	if err != nil || parsed.Hostname() == "" || strings.ContainsAny(parsed.Hostname(), " ,") {
		return endpoint{}, invalid("%q is not an endpoint: the host or the port is invalid", text)
	}
	if port, err := strconv.Atoi(parsed.Port()); err != nil || port < 1 || port > 65535 {
		return endpoint{}, invalid("%q is not an endpoint: the port must be 1 to 65535", text)
	}
	return endpoint{scheme, authority}, nil
}

func parseEndpoints(list string, isSecure bool) ([]endpoint, error) {
	var endpoints []endpoint
	for _, text := range strings.Split(list, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		parsed, err := parseEndpoint(text, isSecure)
		if err != nil {
			return nil, err
		}
		endpoints = append(endpoints, parsed)
	}
	if len(endpoints) == 0 {
		return nil, invalid("no endpoints are given")
	}
	return endpoints, nil
}

// endpoints is the order in which endpoints are tried, and the time of each one's last response.
type endpoints struct {
	list     []endpoint
	mutex    sync.Mutex
	answered []time.Time
	good     int
}

func newEndpoints(list []endpoint) *endpoints {
	return &endpoints{list: list, answered: make([]time.Time, len(list)), good: -1}
}

// inTurn returns the last good endpoint, then the others as listed.
func (e *endpoints) inTurn() []int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var order []int
	if e.good >= 0 {
		order = append(order, e.good)
	}
	for at := range e.list {
		if at != e.good {
			order = append(order, at)
		}
	}
	return order
}

func (e *endpoints) answeredLately(at int) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return !e.answered[at].IsZero() && time.Since(e.answered[at]) < lately
}

// hasAnswered records a response. It is good if the node could process the request, even if it refused it.
func (e *endpoints) hasAnswered(at int, isGood bool) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.answered[at] = time.Now()
	if isGood {
		e.good = at
	} else if e.good == at {
		e.good = -1
	}
}

func (e *endpoints) wasSilent(at int) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.answered[at] = time.Time{}
	if e.good == at {
		e.good = -1
	}
}

// silence returns how long an endpoint may be silent: its share of the time, limited while others are left.
func silence(share time.Duration, left int) time.Duration {
	if left > 1 {
		return min(share, longestSilence)
	}
	return share
}
