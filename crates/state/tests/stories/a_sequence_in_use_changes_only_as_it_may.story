found c1
> founded
create segment order max=100 min=1
> created, revision 1, epoch 1
grant order 60
> values 1 to 60 by 1: indices 0 + 60, run from 0, token 4, epoch 1
# Extending the end changes neither the run nor any value.
update order max=200
> updated, revision 2
show order
> next value 61, 60 allocated, 140 remain; run from 0 with token 4
grant order 60 after=4
> values 61 to 120 by 1: indices 60 + 60, run from 0, token 5, epoch 1
update order max=200
> unchanged, revision 2
update order max=199
> refused: max of the sequence order cannot be changed: it is 200 and can only be extended: values up to it may already be granted
update order min=-5
> refused: min of the sequence order cannot be changed: the sequence does not move towards this bound
return order token=5 unused=80
> 40 returned, next index 80
show order
> next value 81, 80 allocated, 120 remain; run none
# Sizes and description, at the expected revision.
update order smallest=5 largest=50 about=orders revision=2
> updated, revision 3
update order smallest=5 revision=2
> refused: the sequence order has revision 3, not 2
update order smallest=500
> refused: segment sizes must be 1 to 1000000000, and the smallest at most the largest
update order target=0
> refused: a segment's target must be 1 to 86400000 ms
# An exhausted sequence continues.
create strict short max=3
> created, revision 1, epoch 1
next short*3
> values 1 to 3
next short
> refused: the sequence short has 0 values left, but 1 were requested
update short max=5
> updated, revision 2
next short*2
> values 4 to 5
update short smallest=5
> refused: the sequence short is a strict sequence
# A descending sequence ends at min.
create strict down by=-1 min=-3
> created, revision 1, epoch 1
next down*3
> values -1 to -3
update down min=-5
> updated, revision 2
next down
> values -4 to -4
update down min=-4
> refused: min of the sequence down cannot be changed: it is -5 and can only be extended: values up to it may already be granted
update down max=5
> refused: max of the sequence down cannot be changed: the sequence does not move towards this bound
# A cycling sequence keeps both bounds.
create strict round max=5 cycle=yes
> created, revision 1, epoch 1
update round max=6
> refused: max of the sequence round cannot be changed: the sequence cycles, and the end of a pass determines the value at each index
update round max=5
> unchanged, revision 1
update round about=again
> updated, revision 2
update nobody max=5
> refused: there is no sequence nobody
delete order
> deleted, epoch 2
update order max=300
> refused: there is no sequence order
