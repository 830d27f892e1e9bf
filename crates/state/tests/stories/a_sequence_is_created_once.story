found c1
> founded
create strict order
> created, revision 1, epoch 1
create strict order
> there already, revision 1, epoch 1
create segment order
> refused: the sequence order exists with another definition
create strict order start=5
> refused: the sequence order exists with another definition
create strict order about=other
> refused: the sequence order exists with another definition
create segment sizes smallest=0
> refused: segment sizes must be 1 to 1000000000, and the smallest at most the largest
create segment sizes smallest=10 largest=9
> refused: segment sizes must be 1 to 1000000000, and the smallest at most the largest
create segment sizes largest=1000000001
> refused: segment sizes must be 1 to 1000000000, and the smallest at most the largest
create segment sizes target=0
> refused: a segment's target must be 1 to 86400000 ms
