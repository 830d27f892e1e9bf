found c1
> founded
time 1000 1000
lock docs owner=a nonce=1 shared=1 ; lock docs owner=b nonce=2 shared=1
> held with token 4 until 2001
> held with token 5 until 2001
# A shared request does not overtake an exclusive waiter.
lock docs owner=w nonce=3 wait=9000 ; lock docs owner=c nonce=4 shared=1 wait=9000
> waiting behind 0 until 10000
> waiting behind 1 until 10000
show-lock docs
> held by a with token 4 until 2001, shared and b with token 5 until 2001, shared; w, then c waits
unlock docs owner=a token=4 ; unlock docs owner=b token=5
> released
> released
show-lock docs
> held by w with token 6 until 2001; c waits
withdraw-lock docs nonce=3
> withdrawn
show-lock docs
> held by c with token 7 until 2001, shared; nobody waits
lock jobs owner=a nonce=1 permits=2 ; lock jobs owner=b nonce=2 permits=2 ; lock jobs owner=c nonce=3 permits=2 wait=500
> held with token 8 until 2001
> held with token 9 until 2001
> waiting behind 0 until 1500
lock jobs owner=d nonce=4 permits=3
> refused: the lock jobs is in use with 2 permits, not 3
lock jobs owner=d nonce=4 permits=0
> refused: permits are 1 to 1024
unlock jobs owner=b token=9
> released
show-lock jobs
> held by a with token 8 until 2001 and c with token 10 until 2001; nobody waits
# A restored cluster has no locks, and its tokens are larger.
restore c2
> restored, node 11
show-lock jobs
> the lock jobs is free
lock jobs owner=a nonce=1
> refused: this cluster was restored and its leader has not set the start time yet: the leader waits until its clock is past the backup's time (1767225601000 ms) and agrees with the other voters' clocks
time 2000 2000
stamp 2000
> stamped at 2000
lock jobs owner=a nonce=1
> held with token 1853070352842752001 until 3001
