#!/bin/sh
# Runs a program that takes its worker number from the environment, under a lease of that number:
#
#   with-worker.sh OWNER PROGRAM [ARGUMENT...]
#
# The program gets SEQD_WORKER, SEQD_FROM_TICK and SEQD_FENCE_TICK. Where the lease is not renewed it is
# asked to end (TERM) once two thirds of the window are over, and killed well before the fence.
# SEQD_ENDPOINTS names the cluster.
set -eu
owner=$1
shift

# A line of `-o plain` is a name, a tab and a value.
field() { printf '%s\n' "$lease" | sed -n "s/^$1	//p"; }

# By this machine's clock before the request: the window begins no earlier.
asked=$(date +%s)
lease=$(seqd --timeout 2s worker lease --owner "$owner" -o plain)
id=$(field id)
name=$(field lease)
third=$(($(field renew_after_ms) / 1000))
if [ "$third" -lt 5 ]; then
    echo "with-worker.sh: a window of less than 15 s is too short for a shell" >&2
    exit 1
fi

SEQD_WORKER=$id SEQD_FROM_TICK=$(field from_tick) SEQD_FENCE_TICK=$(field fence_tick) "$@" &
program=$!
trap 'kill $program 2>/dev/null || true' INT TERM

renewed=$asked next=$((asked + third)) ending=no
while kill -0 $program 2>/dev/null; do
    sleep 1
    now=$(date +%s)
    # An eighth of the window is left for what takes longer than it should.
    if [ $((now - renewed)) -ge $((third * 21 / 8)) ]; then
        kill -9 $program 2>/dev/null || true
    elif [ $((now - renewed)) -ge $((third * 2)) ] && [ $ending = no ]; then
        ending=yes
        kill $program 2>/dev/null || true
    fi
    [ $ending = no ] && [ "$now" -ge "$next" ] || continue
    code=0
    timeout 3 seqd --timeout 2s worker renew "$id" --owner "$owner" --lease "$name" -q >/dev/null || code=$?
    if [ $code -eq 0 ]; then
        renewed=$now next=$((now + third))
    elif [ $code -eq 6 ]; then
        # Lost: another may have it.
        kill -9 $program 2>/dev/null || true
    fi
done

code=0
wait $program || code=$?
# Without --last-tick the worker stays taken up to its fence: nobody knows what the program used.
timeout 3 seqd --timeout 2s worker release "$id" --owner "$owner" --lease "$name" -q >/dev/null || true
exit $code
