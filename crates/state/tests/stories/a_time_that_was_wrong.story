found c1
> founded
time 1000 1000
take js53 owner=a fence=31000
> worker 0 of js53, lease 4, ticks from 1000 to 31000
# A leader's clock is a year ahead for one entry.
time 31536000000 1001
extend js53 0 lease=4 fence=31536001000
> extended to 31536001000
# A backup taken at this point carries the wrong time. The operator gives the time at which it was
# written.
restore c2 written=31536000001
> refused: the state cannot have been written at 1798761600001 ms: allowed are 0 to 1798761600000 ms
restore c2
> restored, node 5
stamp 3000
> refused: the restored cluster cannot begin at 1767225603000 ms: allowed are 1798761600000 to 8796093022207 ms
restore c3 written=3000
> restored, node 6
stamp 3000
> stamped at 3000
# The recorded window still applies: the worker stays unused until the window ends.
time 40000 40000
take js53 owner=c fence=70000
> worker 1 of js53, lease 1853070353891328001, ticks from 40000 to 70000
# A time before the stamp of a restored cluster is refused.
restore c4 written=2999
> refused: the state cannot have been written at 1767225602999 ms: allowed are 1767225603000 to 1767225640000 ms
# The time is that of the last entry: a later correct time replaces a wrong one.
time 31536000000 40001
take js53 owner=d fence=31536001000
> worker 2 of js53, lease 1853070353891328002, ticks from 31536000000 to 31536001000
time 50000 50000
take js53 owner=e fence=80000
> worker 3 of js53, lease 1853070353891328003, ticks from 50000 to 80000
restore c5
> restored, node 1853070353891328004
stamp 51000
> stamped at 51000
