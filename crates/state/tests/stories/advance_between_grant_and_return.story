# Node A holds indices 0 to 99 (values 1 to 100) and has used ten of them. Before it returns the
# rest, the sequence is advanced to 500. If the return were accepted, 11 would be granted after 500.
found c1
> founded
create segment order
> created, revision 1, epoch 1
grant order 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
advance order 500
> next value 500, index 499, epoch 2
return order token=4 unused=10
> refused: grant 4 of the sequence order is not its latest, or the sequence has moved since then
show order
> next value 500, 499 allocated, 9223372036854775308 remain; run none
grant order 10
> values 500 to 509 by 1: indices 499 + 10, run from 499, token 5, epoch 2
# A return inside an older run stays refused, also with the token of that run.
return order token=4 unused=10
> refused: grant 4 of the sequence order is not its latest, or the sequence has moved since then
