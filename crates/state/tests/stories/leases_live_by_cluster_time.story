# The wall clock decides about fences, and cluster time about the liveness of leases.
found c1
> founded
show-deadline
> none
time 1000 0
take js53 owner=a fence=31000
> worker 0 of js53, lease 4, ticks from 1000 to 31000
show-deadline
> 30000
# The wall clock jumps a day ahead. The lease is still live, so its owner, which would get its
# previous worker again if that were free, gets another worker.
time 86400000 10000
take js53 owner=a fence=86401000
> worker 1 of js53, lease 5, ticks from 86400000 to 86401000
# An extend moves the deadline.
time 12000 20000
extend js53 0 lease=4 fence=42000
> extended to 42000
show-deadline
> 40000
restart
show-deadline
> 40000
# Cluster time never decreases.
time 12000 5000
take js53 owner=c fence=42000
> worker 2 of js53, lease 6, ticks from 12000 to 42000
show-deadline
> 40000
# After both deadlines nothing is pending.
time 51000 50000
show-deadline
> 40000
take js53 owner=a fence=81000
> worker 0 of js53, lease 7, ticks from 51000 to 81000
restart
show-deadline
> 80000
# The lease has expired. A renewal would bypass the checks of a new lease, so it is refused.
time 90000 90000
next nothing
> refused: there is no sequence nothing
show-deadline
> none
extend js53 0 lease=7 fence=91000
> refused: lease 7 does not hold worker 0 of layout js53; it was released, has ended or was never taken
show-deadline
> none
extend js53 0 lease=4 fence=91000
> refused: lease 4 does not hold worker 0 of layout js53; it was released, has ended or was never taken
release js53 0 lease=7 last=60000
> released at 60001
show-deadline
> none
release js53 0 lease=7 last=60000
> refused: lease 7 does not hold worker 0 of layout js53; it was released, has ended or was never taken
extend js53 0 lease=7 fence=99000
> refused: lease 7 does not hold worker 0 of layout js53; it was released, has ended or was never taken
