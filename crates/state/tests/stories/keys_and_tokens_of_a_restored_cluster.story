# After a restore, keys are kept, tokens are refused, and no key is claimed before the stamp.
found c1
> founded
time 1000 1000
begin done for=x ; begin open ; issue 7 8
> first, attempt 1, claim 4 until 11001, the key until 61001
> first, attempt 1, claim 5 until 11001, the key until 61001
> issued until 61001
complete done claim=4 result=paid
> completed
consume 7
> consumed
restore c2
> restored, node 6
consume 7
> unknown
consume 8
> unknown
begin done for=x
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225601000 ms) and agrees with the other voters' clocks
show-key done
> attempt 1, until 61001, result paid
complete open claim=5 result=paid
> completed
time 100000 1000
stamp 100000
> stamped at 100000
begin done for=x
> done in attempt 1
begin new
> first, attempt 1, claim 1853070455603200001 until 11001, the key until 61001
show-key open
> attempt 1, until 61001, result paid
