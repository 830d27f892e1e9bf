package seqd

import (
	"fmt"
	"hash/fnv"
	"math/bits"
	"sync"
	"time"
)

// ClockPolicy is the tolerances for the wall clock of a generator. Uniqueness does not depend on them.
type ClockPolicy struct {
	// MaxBackwardWait is the largest rollback that is waited out.
	MaxBackwardWait time.Duration
	// ContinueOnRollback continues after a larger one in logical time inside the window, instead of refusing.
	ContinueOnRollback bool
	// MaxForwardJump is how far the wall clock may run ahead of the monotonic clock between two readings.
	MaxForwardJump time.Duration
}

// DefaultClockPolicy returns the defaults of the server: 50 ms, refuse, 1 s.
func DefaultClockPolicy() ClockPolicy {
	return ClockPolicy{MaxBackwardWait: 50 * time.Millisecond, MaxForwardJump: time.Second}
}

// clockConfirm is the time for which a clock must keep to its new line before a jump ahead is trusted.
const clockConfirm = 5000

// clockGuard compares the wall clock with the monotonic clock. The difference of both, the line, is constant while
// nobody sets the wall clock. A reading near the trusted line moves it, so that slow drift does not add up.
type clockGuard struct {
	policy         ClockPolicy
	line           *int64
	candidate      int64
	candidateSince *int64
	// lastUsed is the start of the last tick that a closed minter used.
	lastUsed int64
}

// judgeForMinting returns a mint without IDs if the reading must not be used.
func (g *clockGuard) judgeForMinting(wall, mono int64) *mint {
	if g.line != nil && wall-mono <= *g.line+g.policy.MaxForwardJump.Milliseconds() && wall >= g.lastUsed {
		return nil
	}
	return g.judge(wall, mono)
}

// judge judges a reading and records it.
func (g *clockGuard) judge(wall, mono int64) *mint {
	if wall < g.lastUsed {
		g.candidateSince = nil
		by := g.lastUsed - wall
		switch {
		case g.policy.ContinueOnRollback:
			return nil
		case by > g.policy.MaxBackwardWait.Milliseconds():
			return behind(by, g.lastUsed)
		}
		return &mint{waitMS: by}
	}
	here := wall - mono
	ahead := int64(0)
	if g.line != nil {
		ahead = here - *g.line
	}
	if g.isNear(ahead) || g.isConfirmed(here, mono) {
		g.line, g.candidateSince = &here, nil
		return nil
	}
	if ahead < 0 {
		return nil
	}
	return &mint{code: "clock-jumped", detail: fmt.Sprintf(
		"the wall clock jumped %d ms ahead; it is trusted again after it has been steady for 5 s", ahead)}
}

func (g *clockGuard) isConfirmed(here, mono int64) bool {
	if g.candidateSince == nil || !g.isNear(here-g.candidate) {
		g.candidateSince = &mono
	}
	g.candidate = here
	return mono-*g.candidateSince >= clockConfirm
}

func (g *clockGuard) isNear(difference int64) bool {
	limit := g.policy.MaxForwardJump.Milliseconds()
	return -limit <= difference && difference <= limit
}

// mint is the result of a request to mint: IDs of one tick, a wait, or a refusal with a code.
type mint struct {
	ids, first, step int64
	worker           int64
	waitMS           int64
	code, detail     string
	byMS             int64
}

// err returns a refusal as an error. A clock may be right again later.
func (m mint) err(cause error) *Error {
	isPermanent := m.code == "closed" || m.code == "layout-exhausted"
	return &Error{Code: m.code, Detail: m.detail, Retryable: !isPermanent, cause: cause}
}

func behind(by, until int64) *mint {
	return &mint{code: "clock-behind", byMS: by, detail: fmt.Sprintf(
		"the wall clock is %d ms behind; the generator serves again at %s", by, timeText(until))}
}

func timeText(unixMS int64) string {
	return time.UnixMilli(unixMS).UTC().Format("2006-01-02T15:04:05.000Z")
}

// minter mints the IDs of one worker lease. It reads no clock and never waits.
//
// Invariants: each pair of tick and sequence is returned at most once, whatever the clock does; pairs only increase;
// every tick is at or above the first tick of the lease and below a fence that a node has returned; nothing is minted
// after close. Create one minter per lease.
type minter struct {
	layout   Layout
	worker   int64
	lease    string
	fromTick int64
	seed     uint64
	bound    int64
	policy   ClockPolicy

	mutex sync.Mutex
	// next is the next unused slot: tick << sequence bits | sequence.
	next     int64
	fence    int64
	isClosed bool
}

func newMinter(layout Layout, worker int64, lease string, fromTick, fence int64, policy ClockPolicy) (*minter, error) {
	if err := layout.check(); err != nil {
		return nil, err
	}
	if worker < 0 || worker >= layout.Workers() || fromTick < 0 || fromTick > layout.MaxTick()+1 {
		return nil, &Error{Code: "bad-lease", Detail: fmt.Sprintf(
			"the lease of worker %d from tick %d does not fit its layout %s", worker, fromTick, layout.Name)}
	}
	// The number of the lease is random. Uniqueness does not depend on the seed.
	hash := fnv.New64a()
	hash.Write([]byte(lease))
	return &minter{layout: layout, worker: worker, lease: lease, fromTick: fromTick, fence: fence, policy: policy,
		seed: hash.Sum64(), bound: bound(layout.FirstSequence), next: fromTick << layout.SequenceBits}, nil
}

// last returns the last used tick, or -1 if nothing was minted.
func (m *minter) last() int64 {
	if m.next == m.fromTick<<m.layout.SequenceBits {
		return -1
	}
	return (m.next - 1) >> m.layout.SequenceBits
}

// mint takes up to count IDs of one tick. With 0 it takes none, and otherwise returns the same as with 1. The check for
// a rollback comes first: a sequence that begins again in an earlier tick would repeat IDs.
func (m *minter) mint(wall, count int64) mint {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.isClosed {
		return mint{code: "closed", detail: "the generator is closed"}
	}
	last, open := m.last(), m.next>>m.layout.SequenceBits
	maxBackward := m.policy.MaxBackwardWait.Milliseconds()
	if lastBegins := m.layout.WallAt(last); last >= 0 && wall < lastBegins {
		switch by := lastBegins - wall; {
		case m.policy.ContinueOnRollback && open > m.layout.MaxTick():
			return m.full()
		case m.policy.ContinueOnRollback:
			return m.take(open, count)
		case by > maxBackward:
			return *behind(by, lastBegins)
		}
		return mint{waitMS: m.layout.WallAt(open) - wall}
	}
	if wall < m.layout.EpochMS {
		return *behind(m.layout.EpochMS-wall, m.layout.EpochMS)
	}
	now := m.layout.TickAt(wall)
	if now > m.layout.MaxTick() || now < open && open > m.layout.MaxTick() {
		return m.full()
	}
	if now < open {
		// The last tick is full, or the window begins later.
		ms := m.layout.WallAt(open) - wall
		if last < 0 && ms > maxBackward {
			return *behind(ms, m.layout.WallAt(open))
		}
		return mint{waitMS: ms}
	}
	return m.take(now, count)
}

func (m *minter) full() mint {
	return mint{code: "layout-exhausted", detail: "layout " + m.layout.Name + " is full"}
}

func (m *minter) take(tick, count int64) mint {
	if tick >= m.fence {
		return mint{code: "window-ended", detail: "the window ended at " + timeText(m.layout.WallAt(m.fence))}
	}
	first := m.next & (m.layout.Sequences() - 1)
	if tick != m.next>>m.layout.SequenceBits || first == 0 {
		first = m.firstOf(tick, count)
	}
	ids := min(count, m.layout.Sequences()-first)
	if ids > 0 {
		m.next = tick<<m.layout.SequenceBits + first + ids
	}
	return mint{ids: ids, first: m.layout.join(tick, m.worker, first), step: m.layout.step(), worker: m.worker}
}

// firstOf returns the first sequence of a fresh tick.
func (m *minter) firstOf(tick, count int64) int64 {
	if m.bound > 0 {
		return m.draw(tick, m.bound)
	}
	// After a tick that was used completely, the demand is too high to skip sequences.
	if tick == m.next>>m.layout.SequenceBits && m.last() >= 0 {
		return 0
	}
	sequences := m.layout.Sequences()
	return m.draw(tick, sequences-min(max(count, 1), sequences)+1)
}

func (m *minter) draw(tick, below int64) int64 {
	high, _ := bits.Mul64(mix(m.seed^mix(uint64(tick))), uint64(below))
	return int64(high)
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(value uint64) uint64 {
	z := value + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// extend raises the fence to one that a node has returned. A lower one has no effect.
func (m *minter) extend(fence int64) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.fence = max(m.fence, fence)
}

// close permanently stops minting.
func (m *minter) close() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.isClosed = true
}

// lastTick returns the last used tick, or -1 if nothing was minted.
func (m *minter) lastTick() int64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.last()
}

// releaseTick returns the tick to release the worker with: the last used one, or the one before the window.
func (m *minter) releaseTick() int64 {
	if last := m.lastTick(); last >= 0 {
		return last
	}
	return m.fromTick - 1
}

// endsMS returns the end of the window by the wall clock.
func (m *minter) endsMS() int64 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.layout.WallAt(m.fence)
}
