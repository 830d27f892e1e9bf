found c1
> founded
create strict order by=10
> created, revision 1, epoch 1
next order*3
> values 1 to 21
# The next value is 31. A smaller target is refused, and the refusal contains the next value.
advance order 30
> refused: the sequence order is past 30: the next value is 31
advance order 31
> next value 31, index 3, epoch 2
advance order 32
> next value 41, index 4, epoch 3
show order
> next value 41, 4 allocated, 922337203685477577 remain; run none
advance order 0
> refused: the sequence order is past 0: the next value is 41
# The sequence cannot be advanced past its last value.
create strict short max=10 by=3
> created, revision 1, epoch 1
advance short 10
> next value 10, index 3, epoch 2
advance short 11
> refused: the sequence short has no value at or beyond 11 within 1 to 10
next short*4
> refused: the sequence short has 1 values left, but 4 were requested
advance short 10
> next value 10, index 3, epoch 3
next short
> values 10 to 10
# A descending sequence advances downwards.
create strict down by=-1
> created, revision 1, epoch 1
next down*5
> values -1 to -5
advance down -3
> refused: the sequence down is past -3: the next value is -6
advance down -100
> next value -100, index 99, epoch 2
next down
> values -100 to -100
create strict round max=5 cycle=yes
> created, revision 1, epoch 1
advance round 3
> refused: the sequence round cycles, so it cannot be advanced
advance nobody 3
> refused: there is no sequence nobody
