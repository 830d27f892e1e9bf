found c1
> founded
time 0 0
take js53 owner=a fence=10 ; take js53 owner=b fence=10 ; take js53 owner=c fence=10
> worker 0 of js53, lease 4, ticks from 0 to 10
> worker 1 of js53, lease 5, ticks from 0 to 10
> worker 2 of js53, lease 6, ticks from 0 to 10
release js53 0 lease=4 last=3 ; release js53 1 lease=5 last=5 ; release js53 2 lease=6 last=4
> released at 4
> released at 6
> released at 5
# The owner's previous worker, if its fence is not ahead of the clock.
time 5 5
take js53 owner=a fence=100
> worker 0 of js53, lease 7, ticks from 5 to 100
take js53 owner=b fence=100
> worker 3 of js53, lease 8, ticks from 5 to 100
take js53 owner=c fence=100
> worker 2 of js53, lease 9, ticks from 5 to 100
# The fence of b's previous worker was ahead, so b got an unused worker. After the fence has passed,
# b gets the previous worker again, because the lease of the other worker is still live.
time 6 6
take js53 owner=b fence=100
> worker 1 of js53, lease 10, ticks from 6 to 100
# A node and an external generator of the same name are two owners.
start 1 boot=1
> node 1 started, boot 1
take js53 owner=a node=1 boot=1 fence=100
> worker 4 of js53, lease 11, ticks from 6 to 100
take js53 owner= fence=100
> refused: the owner has 0 bytes; 1 to 255, without control characters, are allowed
