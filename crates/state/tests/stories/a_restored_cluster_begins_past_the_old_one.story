# A window of 30 s and a skew of 500 ms. The backup was taken at 10000, and the old cluster
# continued.
found c1
> founded
time 10000 10000
start 1 boot=1
> node 1 started, boot 1
take js53 owner=n1 node=1 boot=1 fence=40000
> worker 0 of js53, lease 4, ticks from 10000 to 40000
take js53 owner=external fence=40000
> worker 1 of js53, lease 5, ticks from 10000 to 40000
create segment order
> created, revision 1, epoch 1
grant order 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 6, epoch 1
restore c2 margin=1000 ancestor=c1
> restored, node 7
> order: index 100 to 1100, next value 101 to 1101
# No number is drawn and no worker is leased until the first leader has stamped the start time.
take js53 owner=x fence=42000
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225610000 ms) and agrees with the other voters' clocks
grant order 10
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225610000 ms) and agrees with the other voters' clocks
join n2
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225610000 ms) and agrees with the other voters' clocks
stamp 9999
> refused: the restored cluster cannot begin at 1767225609999 ms: allowed are 1767225610000 to 8796093022207 ms
time 12000 12000
stamp 12000
> stamped at 12000
# A second stamp changes nothing.
stamp 50000
> stamped at 12000
show-counter
> the next number is 1853070363328512001
start 7 boot=1
> node 7 started, boot 1
# The old windows end at most at 12000 + window + 4 skews. New windows begin after that, also for
# workers and layouts that were never used.
take js53 owner=n1 node=7 boot=1 fence=42000
> refused: this cluster was restored: windows of layout js53 begin in 32001 ms, after all windows that were granted earlier
take default owner=n1 node=7 boot=1 fence=42000
> refused: this cluster was restored: windows of layout default begin in 32001 ms, after all windows that were granted earlier
take sonyflake owner=n1 node=7 boot=1 fence=3153607000
> refused: this cluster was restored: windows of layout sonyflake begin in 32010 ms, after all windows that were granted earlier
# No lease of the old cluster can be extended or released.
extend js53 0 lease=4 fence=43000
> refused: lease 4 does not hold worker 0 of layout js53; it was released, has ended or was never taken
extend js53 1 lease=5 fence=43000
> refused: lease 5 does not hold worker 1 of layout js53; it was released, has ended or was never taken
release js53 1 lease=5 last=11000
> refused: lease 5 does not hold worker 1 of layout js53; it was released, has ended or was never taken
restart
time 44000 44000
take default owner=n1 node=7 boot=1 fence=74000
> refused: this cluster was restored: windows of layout default begin in 1 ms, after all windows that were granted earlier
time 44001 44001
take default owner=n1 node=7 boot=1 fence=74001
> worker 0 of default, lease 1853070363328512001, ticks from 44001 to 74001
take js53 owner=n1 node=7 boot=1 fence=74001
> worker 2 of js53, lease 1853070363328512002, ticks from 44001 to 74001
take sonyflake owner=n1 node=7 boot=1 fence=3153607000
> refused: this cluster was restored: windows of layout sonyflake begin in 9 ms, after all windows that were granted earlier
time 44010 44010
take sonyflake owner=n1 node=7 boot=1 fence=3153607000
> worker 0 of sonyflake, lease 1853070363328512003, ticks from 3153604401 to 3153607000
# The IDs of the old members are not reused.
start 1 boot=9
> refused: node 1 was removed from the cluster
