//go:build !linux

package seqd

import "time"

var processBegan = time.Now()

// bootClock does not count suspended time on these systems: a hold may appear valid for longer after a suspension.
func bootClock() time.Duration { return time.Since(processBegan) }
