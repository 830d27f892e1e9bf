found c1
> founded
time 10 10
take js53 owner=a fence=20 ; take js53 owner=other fence=20
> worker 0 of js53, lease 4, ticks from 10 to 20
> worker 1 of js53, lease 5, ticks from 10 to 20
release js53 0 lease=4 last=15
> released at 16
time 16 16
take js53 owner=a fence=30
> worker 0 of js53, lease 6, ticks from 16 to 30
who js53 0 9
> nobody
who js53 0 15
> a, lease 4, ticks from 10 to 16
who js53 0 16
> a, lease 6, ticks from 16 to 30
who js53 1 12
> other, lease 5, ticks from 10 to 20
who js53 2 16
> nobody
release js53 0 lease=6 last=25
> released at 26
time 26 26
take js53 owner=a fence=40
> worker 0 of js53, lease 7, ticks from 26 to 40
release js53 0 lease=7 last=25
> released at 26
# This lease minted nothing.
take js53 owner=a fence=40
> worker 0 of js53, lease 8, ticks from 26 to 40
time 30 30
extend js53 0 lease=8 fence=50
> extended to 50
release js53 0 lease=8 last=48
> released at 49
time 100 100
take js53 owner=a fence=120
> worker 0 of js53, lease 9, ticks from 100 to 120
who js53 0 16
> a, lease 6, ticks from 16 to 26
who js53 0 25
> a, lease 6, ticks from 16 to 26
who js53 0 26
> a, lease 8, ticks from 26 to 49
who js53 0 48
> a, lease 8, ticks from 26 to 49
who js53 0 49
> nobody
who js53 0 99
> nobody
who js53 0 100
> a, lease 9, ticks from 100 to 120
who js53 0 119
> a, lease 9, ticks from 100 to 120
who js53 0 120
> nobody
who js53 1 100
> nobody
restart
who js53 0 16
> a, lease 6, ticks from 16 to 26
who js53 0 48
> a, lease 8, ticks from 26 to 49
who js53 0 99
> nobody
# Grants that the old cluster made after the backup are unknown in the restored one.
restore c2
> restored, node 10
who js53 0 48
> a, lease 8, ticks from 26 to 49
who js53 0 200
> not known, leases are from None
stamp 300
> stamped at 300
who js53 0 48
> a, lease 8, ticks from 26 to 49
who js53 0 99
> not known, leases are from Some(32301)
who js53 0 40000
> nobody
