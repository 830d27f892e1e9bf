found c1
> founded
time 100 100
take js53 owner=a fence=30100
> worker 0 of js53, lease 4, ticks from 100 to 30100
time 5000 5000
# Outside of what was granted, nothing can be given back.
release js53 0 lease=4 last=98
> refused: last tick 98 is outside the lease's window from 100 to 30100
release js53 0 lease=4 last=30100
> refused: last tick 30100 is outside the lease's window from 100 to 30100
release js53 0 lease=4 last=4999
> released at 5000
# So a gets its worker again at once, from there on.
take js53 owner=a fence=30200
> worker 0 of js53, lease 5, ticks from 5000 to 30200
# Released by somebody who cannot know the last tick: the fence stays, and a gets another worker.
release js53 0 lease=5
> released at 30200
take js53 owner=a fence=30200
> worker 1 of js53, lease 6, ticks from 5000 to 30200
# Nothing was minted: all of the window comes back.
release js53 1 lease=6 last=4999
> released at 5000
take js53 owner=a fence=30200
> worker 1 of js53, lease 7, ticks from 5000 to 30200
