#!/bin/sh
# Runs a program that takes its worker number from the environment, under a lease of that number:
#
#   with-worker.sh OWNER PROGRAM [ARGUMENT...]
#
# The program gets SEQD_WORKER, SEQD_FROM_TICK and SEQD_FENCE_TICK, and is ended a third of the window
# before the fence where the lease could not be renewed. SEQD_ENDPOINTS names the cluster.
set -eu
owner=$1
shift

# A line of `-o plain` is a name, a tab and a value.
field() { printf '%s\n' "$lease" | sed -n "s/^$1	//p"; }

lease=$(seqd worker lease --owner "$owner" -o plain)
id=$(field id)
name=$(field lease)
third=$(($(field renew_after_ms) / 1000))
[ "$third" -ge 1 ] || third=1

SEQD_WORKER=$id SEQD_FROM_TICK=$(field from_tick) SEQD_FENCE_TICK=$(field fence_tick) "$@" &
program=$!
trap 'kill $program 2>/dev/null || true' INT TERM

waited=0 failed=0
while kill -0 $program 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    [ $waited -ge $third ] || continue
    waited=0
    if seqd worker renew "$id" --owner "$owner" --lease "$name" -q >/dev/null; then
        failed=0
    else
        failed=$((failed + 1))
    fi
    # Renewed at a third: two failures in a row leave the last third.
    [ $failed -lt 2 ] || kill $program
done

code=0
wait $program || code=$?
# Without --last-tick the worker stays taken up to its fence: nobody knows what the program used.
seqd worker release "$id" --owner "$owner" --lease "$name" -q >/dev/null || true
exit $code
