found c1
> founded
create strict order max=10
> created, revision 1, epoch 1
next order*7 order*4 order*3 order
> values 1 to 7
> refused: the sequence order has 3 values left, but 4 were requested
> values 8 to 10
> refused: the sequence order has 0 values left, but 1 were requested
show order
> next value none, 10 allocated, 0 remain; run none
create segment part max=150
> created, revision 1, epoch 1
grant part 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
grant part 100
> values 101 to 150 by 1: indices 100 + 50, run from 100, token 5, epoch 1
grant part 100
> refused: the sequence part has 0 values left, but 100 were requested
# Returned indices can be granted again.
return part token=5 unused=120
> 30 returned, next index 120
grant part 100
> values 121 to 150 by 1: indices 120 + 30, run from 120, token 6, epoch 1
create strict whole min=-9223372036854775808 max=9223372036854775807
> created, revision 1, epoch 1
next whole*1000000
> values -9223372036854775808 to -9223372036853775809
advance whole 9223372036854775806
> next value 9223372036854775806, index 18446744073709551614, epoch 2
next whole whole
> values 9223372036854775806 to 9223372036854775806
> refused: the sequence whole has 0 values left, but 1 were requested
