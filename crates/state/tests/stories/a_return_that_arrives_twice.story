# Node A returns 90 of its 100 indices, and the proposal arrives twice. In between, the returned
# indices are granted to node B. If the second return were accepted, B's values would be granted
# again.
found c1
> founded
create segment order
> created, revision 1, epoch 1
grant order 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
return order token=4 unused=10
> 90 returned, next index 10
grant order 20
> values 11 to 30 by 1: indices 10 + 20, run from 10, token 5, epoch 1
return order token=4 unused=10
> refused: grant 4 of the sequence order is not its latest, or the sequence has moved since then
show order
> next value 31, 30 allocated, 9223372036854775777 remain; run from 10 with token 5
# The same with both returns in one entry and a run of two grants.
grant order 20 after=5
> values 31 to 50 by 1: indices 30 + 20, run from 10, token 6, epoch 1
return order token=6 unused=15 ; return order token=6 unused=15
> 35 returned, next index 15
> refused: grant 6 of the sequence order is not its latest, or the sequence has moved since then
grant order 1
> values 16 to 16 by 1: indices 15 + 1, run from 15, token 7, epoch 1
