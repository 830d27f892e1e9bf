found c1
> founded
create segment order about=first
> created, revision 1, epoch 1
grant order 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
delete order revision=7
> refused: the sequence order has revision 1, not 7
delete order revision=1
> deleted, epoch 2
show order
> no sequence order
grant order 100
> refused: there is no sequence order
return order token=4 unused=0
> refused: there is no sequence order
delete order
> refused: there is no sequence order
# Another definition would grant values again.
create segment order by=2
> refused: the sequence order was deleted; it can be created again only with its former definition
create strict order
> refused: the sequence order was deleted; it can be created again only with its former definition
create segment order about=second
> created, revision 2, epoch 2
# The token from before the deletion is invalid.
return order token=4 unused=0
> refused: grant 4 of the sequence order is not its latest, or the sequence has moved since then
grant order 100
> values 101 to 200 by 1: indices 100 + 100, run from 100, token 5, epoch 2
