found c1
> founded
start 2 boot=1
> node 2 started, boot 1
take default owner=n2 node=2 boot=1 fence=30000
> worker 0 of default, lease 4, ticks from 0 to 30000
remove 2
> node 2 removed
remove 2
> node 2 removed
start 2 boot=2
> refused: node 2 was removed from the cluster
take default owner=n2 node=2 boot=1 fence=30000
> refused: node 2 was removed from the cluster
extend default 0 lease=4 fence=30200
> refused: node 2 was removed from the cluster
# The worker of a removed node is not free earlier: the next lease gets another worker.
take default owner=x fence=30000
> worker 1 of default, lease 5, ticks from 0 to 30000
time 30001 30000
take default owner=y fence=60000
> worker 2 of default, lease 6, ticks from 30001 to 60000
remove 9
> refused: node 9 is not known
