package seqd

import (
	"math"
	"strconv"
	"strings"
)

const (
	workerFirst = "tick-worker-sequence"
	workerLast  = "tick-sequence-worker"
)

// Layout is how tick, worker and sequence share the 63 bits of an ID. Values that do not fit are refused, never masked.
type Layout struct {
	Name           string `json:"name"`
	EpochMS        int64  `json:"epoch_ms"`
	TickMS         int64  `json:"tick_ms"`
	TimeBits       int    `json:"time_bits"`
	DatacenterBits int    `json:"datacenter_bits"`
	WorkerBits     int    `json:"worker_bits"`
	SequenceBits   int    `json:"sequence_bits"`
	Order          string `json:"order"`
	FirstSequence  string `json:"first_sequence"`
}

// Parts are the parts of an ID. Worker is the whole field, datacenter bits included.
type Parts struct {
	Tick             int64
	Worker, Sequence int
}

// check refuses an unknown definition, because an ID must not be made on a guess.
func (l Layout) check() error {
	unsupported := func(what string) error {
		return &Error{Code: "unknown-layout",
			Detail: "layout " + l.Name + " has " + what + ", which this version does not support"}
	}
	if l.Order != workerFirst && l.Order != workerLast {
		return unsupported("order " + l.Order)
	}
	if l.TickMS != 1 && l.TickMS != 10 && l.TickMS != 1000 {
		return unsupported("a tick of " + strconv.FormatInt(l.TickMS, 10) + " ms")
	}
	field := l.fieldBits()
	fits := l.EpochMS >= 0 && l.TimeBits >= 1 && l.TimeBits <= 61 && l.DatacenterBits >= 0 && l.WorkerBits >= 0 &&
		field >= 1 && field <= 31 && l.SequenceBits >= 1 && l.SequenceBits <= 31 &&
		l.TimeBits+field+l.SequenceBits <= 63
	// The end of the last tick is a time of 63 bits.
	if !fits || l.MaxTick() > (math.MaxInt64-l.EpochMS)/l.TickMS-1 {
		return unsupported("unsuitable widths")
	}
	if bound := bound(l.FirstSequence); bound < 0 || bound > l.Sequences() {
		return unsupported("first_sequence " + l.FirstSequence)
	}
	return nil
}

// bound returns the bound of random:N, 1 for zero, 0 for spread, and -1 for anything else.
func bound(firstSequence string) int64 {
	switch {
	case firstSequence == "zero":
		return 1
	case firstSequence == "spread":
		return 0
	}
	number, found := strings.CutPrefix(firstSequence, "random:")
	bound, err := strconv.ParseUint(number, 10, 31)
	if !found || err != nil || bound == 0 {
		return -1
	}
	return int64(bound)
}

func (l Layout) fieldBits() int { return l.DatacenterBits + l.WorkerBits }

// MaxTick returns the last tick.
func (l Layout) MaxTick() int64 { return 1<<l.TimeBits - 1 }

// Sequences returns the number of IDs of one worker in one tick.
func (l Layout) Sequences() int64 { return 1 << l.SequenceBits }

// Workers returns the number of workers.
func (l Layout) Workers() int64 { return 1 << l.fieldBits() }

// TickAt returns the tick of a time in Unix milliseconds: negative before the epoch, above MaxTick after the end.
func (l Layout) TickAt(unixMS int64) int64 {
	since := unixMS - l.EpochMS
	if since < 0 {
		return -1 - (-1-since)/l.TickMS
	}
	return since / l.TickMS
}

// WallAt returns the Unix time in milliseconds at which a tick begins.
func (l Layout) WallAt(tick int64) int64 {
	if tick > (math.MaxInt64-l.EpochMS)/l.TickMS {
		return math.MaxInt64
	}
	return tick*l.TickMS + l.EpochMS
}

// step returns the distance of two IDs of one tick whose sequences follow each other.
func (l Layout) step() int64 {
	if l.Order == workerLast {
		return 1 << l.fieldBits()
	}
	return 1
}

// join joins parts that are known to fit.
func (l Layout) join(tick, worker, sequence int64) int64 {
	high := tick << (l.fieldBits() + l.SequenceBits)
	if l.Order == workerLast {
		return high | sequence<<l.fieldBits() | worker
	}
	return high | worker<<l.SequenceBits | sequence
}

// Pack returns the ID of these parts.
func (l Layout) Pack(parts Parts) (int64, error) {
	worker, sequence := int64(parts.Worker), int64(parts.Sequence)
	if parts.Tick < 0 || parts.Tick > l.MaxTick() || worker < 0 || worker >= l.Workers() || sequence < 0 ||
		sequence >= l.Sequences() {
		return 0, invalid("tick %d, worker %d, sequence %d do not fit layout %s", parts.Tick, worker, sequence, l.Name)
	}
	return l.join(parts.Tick, worker, sequence), nil
}

// Unpack returns the parts of an ID.
func (l Layout) Unpack(id int64) (Parts, error) {
	bits := l.TimeBits + l.fieldBits() + l.SequenceBits
	if id < 0 || id>>bits != 0 {
		return Parts{}, invalid("%d is not an ID of layout %s, which uses %d bits", id, l.Name, bits)
	}
	workerShift, sequenceShift := l.SequenceBits, 0
	if l.Order == workerLast {
		workerShift, sequenceShift = 0, l.fieldBits()
	}
	return Parts{id >> (l.fieldBits() + l.SequenceBits), int(id >> workerShift & (l.Workers() - 1)),
		int(id >> sequenceShift & (l.Sequences() - 1))}, nil
}
