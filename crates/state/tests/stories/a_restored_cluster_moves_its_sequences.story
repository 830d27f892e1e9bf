found c1
> founded
create segment order
> created, revision 1, epoch 1
create strict bill start=100 max=199
> created, revision 1, epoch 1
create strict round max=5 cycle=yes
> created, revision 1, epoch 1
create segment down by=-2 max=-1
> created, revision 1, epoch 1
create strict full max=3
> created, revision 1, epoch 1
create segment gone
> created, revision 1, epoch 1
grant order 100
> values 1 to 100 by 1: indices 0 + 100, run from 0, token 4, epoch 1
next bill*10 round*7 full*3
> values 100 to 109
> values 1 to 5, 1 to 2
> values 1 to 3
grant down 10
> values -1 to -19 by -2: indices 0 + 10, run from 0, token 5, epoch 1
grant gone 10
> values 1 to 10 by 1: indices 0 + 10, run from 0, token 6, epoch 1
delete gone
> deleted, epoch 2
show order
> next value 101, 100 allocated, 9223372036854775707 remain; run from 0 with token 4
# Every sequence needs a floor or a margin.
restore c2
> refused: it is unknown which values of these sequences were granted later: bill, down, full, gone, order, round; give a floor for each, or a margin for all others
restore c2 order=500 bill=150
> refused: it is unknown which values of these sequences were granted later: down, full, gone, round; give a floor for each, or a margin for all others
restore c2 order=500 nobody=1 margin=0
> refused: the saved state has no sequence nobody
# A value does not identify the pass of a cycling sequence.
restore c2 round=3 margin=10
> refused: a value does not identify the pass of a cycling sequence: give a margin for round
# The end may have been extended after the backup, so a floor and a margin may be past it.
restore c2 bill=301 margin=90 order=50
> restored, node 7
> bill: index 10 to 201, next value 110 to none, continues at 301
> down: index 10 to 100, next value -21 to -201
> full: index 3 to 93, next value none to none, continues at 94
> gone: index 10 to 100, next value 11 to 101
> order: index 100 to 100, next value 101 to 101
> round: index 7 to 97, next value 3 to 3
show order
> next value 101, 100 allocated, 9223372036854775707 remain; run none
stamp 5000
> stamped at 5000
# A mark past the end stays valid when the end is extended.
next bill
> refused: the sequence bill has 0 values left, but 1 were requested
update bill max=300
> updated, revision 2
next bill
> refused: the sequence bill has 0 values left, but 1 were requested
update bill max=302
> updated, revision 3
next bill*2
> values 301 to 302
next bill*3
> refused: the sequence bill has 0 values left, but 3 were requested
advance bill 302
> refused: the sequence bill is past 302: its last value was granted
# Old tokens cannot return anything.
return order token=4 unused=50
> refused: grant 4 of the sequence order is not its latest, or the sequence has moved since then
grant order 10 after=4
> values 101 to 110 by 1: indices 100 + 10, run from 100, token 1853070355988480001, epoch 2
next bill
> refused: the sequence bill has 0 values left, but 1 were requested
next round*2
> values 3 to 4
grant down 1
> values -201 to -201 by -2: indices 100 + 1, run from 100, token 1853070355988480002, epoch 2
create segment gone
> created, revision 2, epoch 3
grant gone 1
> values 101 to 101 by 1: indices 100 + 1, run from 100, token 1853070355988480003, epoch 3
# A restored cluster can be restored again.
restore c3 margin=0
> restored, node 1853070355988480004
> bill: index 203 to 203, next value none to none, continues at 303
> down: index 101 to 101, next value -203 to -203
> full: index 93 to 93, next value none to none, continues at 94
> gone: index 101 to 101, next value 102 to 102
> order: index 110 to 110, next value 111 to 111
> round: index 99 to 99, next value 5 to 5
grant order 1
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225600000 ms) and agrees with the other voters' clocks
stamp 4999
> refused: the restored cluster cannot begin at 1767225604999 ms: allowed are 1767225605000 to 8796093022207 ms
stamp 5000
> stamped at 5000
grant order 1
> values 111 to 111 by 1: indices 110 + 1, run from 110, token 1853070363328512005, epoch 3
