found c1
> founded
create strict order
> created, revision 1, epoch 1
create strict bill start=100
> created, revision 1, epoch 1
create segment part
> created, revision 1, epoch 1
next order bill*3 nobody order*2 part order*0 order*1000001 order
> values 1 to 1
> values 100 to 102
> refused: there is no sequence nobody
> values 2 to 3
> refused: the sequence part is a segment sequence
> refused: 0 values were requested; 1 to 1000000 are allowed
> refused: 1000001 values were requested; 1 to 1000000 are allowed
> values 4 to 4
grant order 10
> refused: the sequence order is a strict sequence
return order token=4 unused=0
> refused: the sequence order is a strict sequence
grant part 0
> refused: 0 values were requested; 1 to 1000000000 are allowed
grant part 1000000001
> refused: 1000000001 values were requested; 1 to 1000000000 are allowed
return part token=4 unused=0
> refused: grant 4 of the sequence part is not its latest, or the sequence has moved since then
