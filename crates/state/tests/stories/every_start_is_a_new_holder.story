# A disk is copied. Both processes start with the same boot number; the second one is refused.
found c1
> founded
take default owner=n1 node=1 boot=1 fence=30000
> refused: this start of node 1 is not the registered one: none is registered
start 1 boot=1 nonce=11
> node 1 started, boot 1
start 1 boot=1 nonce=22
> refused: this start of node 1 is not the registered one, boot 1 is
start 1 boot=1 nonce=11
> node 1 started, boot 1
take default owner=n1 node=1 boot=1 fence=30000
> worker 0 of default, lease 4, ticks from 0 to 30000
# The next start does not change the fence of the previous lease: it gets another worker.
start 1 boot=2 nonce=33
> node 1 started, boot 2
start 1 boot=1 nonce=11
> refused: this start of node 1 is not the registered one, boot 2 is
take default owner=n1 node=1 boot=1 fence=30000
> refused: this start of node 1 is not the registered one, boot 2 is
take default owner=n1 node=1 boot=2 fence=30000
> worker 1 of default, lease 5, ticks from 0 to 30000
# The previous process cannot extend its lease. Its window remains reserved for it.
extend default 0 lease=4 fence=30200
> refused: this start of node 1 is not the registered one, boot 2 is
take default owner=n9 node=9 boot=1 fence=30000
> refused: node 9 is not known
start 9
> refused: node 9 is not known
