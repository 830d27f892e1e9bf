# The layout js53 has 32 workers.
found c1
> founded
take js53 owner=w0 fence=900 ; take js53 owner=w1 fence=30000 ; take js53 owner=w2 fence=30000 ; take js53 owner=w3 fence=30000
> worker 0 of js53, lease 4, ticks from 0 to 900
> worker 1 of js53, lease 5, ticks from 0 to 30000
> worker 2 of js53, lease 6, ticks from 0 to 30000
> worker 3 of js53, lease 7, ticks from 0 to 30000
take js53 owner=w4 fence=30000 ; take js53 owner=w5 fence=30000 ; take js53 owner=w6 fence=30000 ; take js53 owner=w7 fence=30000
> worker 4 of js53, lease 8, ticks from 0 to 30000
> worker 5 of js53, lease 9, ticks from 0 to 30000
> worker 6 of js53, lease 10, ticks from 0 to 30000
> worker 7 of js53, lease 11, ticks from 0 to 30000
take js53 owner=w8 fence=30000 ; take js53 owner=w9 fence=30000 ; take js53 owner=w10 fence=30000 ; take js53 owner=w11 fence=30000
> worker 8 of js53, lease 12, ticks from 0 to 30000
> worker 9 of js53, lease 13, ticks from 0 to 30000
> worker 10 of js53, lease 14, ticks from 0 to 30000
> worker 11 of js53, lease 15, ticks from 0 to 30000
take js53 owner=w12 fence=30000 ; take js53 owner=w13 fence=30000 ; take js53 owner=w14 fence=30000 ; take js53 owner=w15 fence=30000
> worker 12 of js53, lease 16, ticks from 0 to 30000
> worker 13 of js53, lease 17, ticks from 0 to 30000
> worker 14 of js53, lease 18, ticks from 0 to 30000
> worker 15 of js53, lease 19, ticks from 0 to 30000
take js53 owner=w16 fence=30000 ; take js53 owner=w17 fence=30000 ; take js53 owner=w18 fence=30000 ; take js53 owner=w19 fence=30000
> worker 16 of js53, lease 20, ticks from 0 to 30000
> worker 17 of js53, lease 21, ticks from 0 to 30000
> worker 18 of js53, lease 22, ticks from 0 to 30000
> worker 19 of js53, lease 23, ticks from 0 to 30000
take js53 owner=w20 fence=30000 ; take js53 owner=w21 fence=30000 ; take js53 owner=w22 fence=30000 ; take js53 owner=w23 fence=30000
> worker 20 of js53, lease 24, ticks from 0 to 30000
> worker 21 of js53, lease 25, ticks from 0 to 30000
> worker 22 of js53, lease 26, ticks from 0 to 30000
> worker 23 of js53, lease 27, ticks from 0 to 30000
take js53 owner=w24 fence=30000 ; take js53 owner=w25 fence=30000 ; take js53 owner=w26 fence=30000 ; take js53 owner=w27 fence=30000
> worker 24 of js53, lease 28, ticks from 0 to 30000
> worker 25 of js53, lease 29, ticks from 0 to 30000
> worker 26 of js53, lease 30, ticks from 0 to 30000
> worker 27 of js53, lease 31, ticks from 0 to 30000
take js53 owner=w28 fence=30000 ; take js53 owner=w29 fence=30000 ; take js53 owner=w30 fence=30000 ; take js53 owner=w31 fence=30000
> worker 28 of js53, lease 32, ticks from 0 to 30000
> worker 29 of js53, lease 33, ticks from 0 to 30000
> worker 30 of js53, lease 34, ticks from 0 to 30000
> worker 31 of js53, lease 35, ticks from 0 to 30000
# All leases are live. The worker of a live lease is never granted.
time 10000 10000
take js53 owner=x fence=40000
> refused: no worker of layout js53 is free; one may be free in 20000 ms
# Released, but with its fence ahead.
release js53 9 lease=13
> released at 30000
take js53 owner=x fence=40000
> refused: no worker of layout js53 is free; one may be free in 20000 ms
release js53 7 lease=11 last=12499
> released at 12500
take js53 owner=x fence=40000
> refused: no worker of layout js53 is free; one may be free in 2500 ms
time 12500 11000
take js53 owner=x fence=40000
> worker 7 of js53, lease 36, ticks from 12500 to 40000
# By cluster time the leases have expired. By the wall clock, which went back, only one fence has
# passed.
time 1000 50000
take js53 owner=x fence=30000
> worker 0 of js53, lease 37, ticks from 1000 to 30000
take js53 owner=y fence=30000
> refused: no worker of layout js53 is free; one may be free in 29000 ms
# The least recently used free worker is chosen: worker 9 was used after all others, and 7 and 0
# were granted again.
time 60000 50001
take js53 owner=y fence=70000
> worker 1 of js53, lease 38, ticks from 60000 to 70000
take js53 owner=z fence=70000
> worker 2 of js53, lease 39, ticks from 60000 to 70000
take js53 owner=w9 fence=70000
> worker 9 of js53, lease 40, ticks from 60000 to 70000
