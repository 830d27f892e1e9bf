# Node A and node B hold ranges of one sequence, and both request another range in the same log
# entry. The tokens differ although the entry is the same, and the ranges do not overlap.
found c1
> founded
create segment order
> created, revision 1, epoch 1
grant order 100            # A's first range
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
grant order 100 after=4 ; grant order 100 after=4
> values 101 to 200 by 1: indices 100 + 100, run from 0, token 5, epoch 1
> values 201 to 300 by 1: indices 200 + 100, run from 200, token 6, epoch 1
# The first refill proves the latest token, so it extends A's run. The second no longer proves it.
show order
> next value 301, 300 allocated, 9223372036854775507 remain; run from 200 with token 6
# A returns with the token of its refill. B's grant has superseded it, so the return is refused.
return order token=5 unused=50
> refused: grant 5 of the sequence order is not its latest, or the sequence has moved since then
# B returns everything that it holds, and nothing that A holds.
return order token=6 unused=150
> refused: index 150 is outside the run from 200 to 300
return order token=6 unused=200
> 100 returned, next index 200
grant order 10
> values 201 to 210 by 1: indices 200 + 10, run from 200, token 7, epoch 1
