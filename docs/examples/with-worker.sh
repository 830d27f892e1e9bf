#!/bin/sh
# Runs a program that takes its worker number from the environment, under a lease of that number:
#
#   with-worker.sh OWNER PROGRAM [ARGUMENT...]
#
# The program gets SEQD_WORKER, SEQD_FROM_TICK and SEQD_FENCE_TICK. It is started once this machine's clock has
# reached the first tick. Where the lease is not renewed it is asked to end (TERM) once two thirds of the window are
# over, and killed well before the fence, by this machine's clock, which must be right within a third of the window.
# SEQD_ENDPOINTS names the cluster.
set -eu
owner=$1
shift

# A line of `-o plain` is a name, a tab and a value.
field() { printf '%s\n' "$lease" | sed -n "s/^$1	//p"; }

# The layout `default` counts its ticks in milliseconds from 2026-01-01.
epoch=1767225600

# When the program is asked to end and when it is killed. An eighth of the window is left for what takes longer than
# it should.
deadlines() {
    fence=$((epoch + $(field fence_tick) / 1000 - third * 3 / 8))
    kill_at=$((renewed + third * 21 / 8))
    [ "$kill_at" -le "$fence" ] || kill_at=$fence
    ask_at=$((kill_at - third * 5 / 8))
}

# Without --last-tick the worker stays taken up to its fence: nobody knows what the program used.
release() {
    timeout 3 seqd --timeout 2s worker release "$id" --owner "$owner" --lease "$name" "$@" -q >/dev/null || true
}

refuse() {
    echo "with-worker.sh: $1" >&2
    release --last-tick $(($(field from_tick) - 1))
    exit 1
}

# By this machine's clock before the request: the window begins no earlier.
asked=$(date +%s)
lease=$(seqd --timeout 2s worker lease --owner "$owner" -o plain)
id=$(field id)
name=$(field lease)
third=$(($(field renew_after_ms) / 1000))
if [ "$third" -lt 5 ]; then
    refuse "a window of less than 15 s is too short for a shell"
fi

renewed=$asked next=$((asked + third)) ending=no
deadlines
from=$((epoch + ($(field from_tick) + 999) / 1000))
if [ "$ask_at" -le "$next" ]; then
    refuse "this machine's clock is ahead of the cluster's by a third of the window or more"
elif [ $((from - asked)) -ge "$third" ]; then
    refuse "this machine's clock is behind the cluster's by a third of the window or more"
fi
while [ "$(date +%s)" -lt "$from" ]; do
    sleep 1
done

SEQD_WORKER=$id SEQD_FROM_TICK=$(field from_tick) SEQD_FENCE_TICK=$(field fence_tick) "$@" &
program=$!
trap 'kill $program 2>/dev/null || true' INT TERM

while kill -0 $program 2>/dev/null; do
    sleep 1
    now=$(date +%s)
    # A clock that was set back would use ticks of the previous holder.
    if [ "$now" -ge "$kill_at" ] || [ "$now" -lt "$from" ]; then
        kill -9 $program 2>/dev/null || true
    elif [ "$now" -ge "$ask_at" ] && [ $ending = no ]; then
        ending=yes
        kill $program 2>/dev/null || true
    fi
    [ $ending = no ] && [ "$now" -ge "$next" ] || continue
    code=0
    lease=$(timeout 3 seqd --timeout 2s worker renew "$id" --owner "$owner" --lease "$name" -o plain) || code=$?
    if [ $code -eq 0 ]; then
        renewed=$now next=$((now + third))
        deadlines
    elif [ $code -eq 6 ]; then
        # Lost: another may have it.
        kill -9 $program 2>/dev/null || true
    fi
done

code=0
wait $program || code=$?
release
exit $code
