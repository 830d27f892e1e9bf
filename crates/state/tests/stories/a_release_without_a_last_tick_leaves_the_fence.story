found c1
> founded
time 100 100
take js53 owner=a fence=30100
> worker 0 of js53, lease 4, ticks from 100 to 30100
time 5000 5000
# A last tick outside of the granted window is refused.
release js53 0 lease=4 last=98
> refused: last tick 98 is outside the lease's window from 100 to 30100
release js53 0 lease=4 last=30100
> refused: last tick 30100 is outside the lease's window from 100 to 30100
release js53 0 lease=4 last=4999
> released at 5000
# The owner gets its worker again at once, starting at the released fence.
take js53 owner=a fence=30200
> worker 0 of js53, lease 5, ticks from 5000 to 30200
# The caller does not have the last tick, so the fence does not change and a gets another worker.
release js53 0 lease=5
> released at 30200
take js53 owner=a fence=30200
> worker 1 of js53, lease 6, ticks from 5000 to 30200
# No tick was minted: the whole window is returned.
release js53 1 lease=6 last=4999
> released at 5000
take js53 owner=a fence=30200
> worker 1 of js53, lease 7, ticks from 5000 to 30200
