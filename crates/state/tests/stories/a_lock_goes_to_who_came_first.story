found c1
> founded
time 1000 1000
lock jobs owner=a nonce=1 ttl=500
> held with token 4 until 1500
lock jobs owner=b nonce=2 ttl=500
> refused: the lock jobs is held by a with token 4; try again in 500 ms
lock jobs owner=b nonce=2 ttl=500 wait=5000 ; lock jobs owner=c nonce=3 ttl=500 wait=5000
> waiting behind 0 until 6000
> waiting behind 1 until 6000
# The same request again: its place is kept, and its wait is longer.
time 1100 1100
lock jobs owner=b nonce=2 ttl=500 wait=5000
> waiting behind 0 until 6100
show-lock jobs
> held by a with token 4 until 1500; b, then c waits
# The owner is a stranger without its token.
lock jobs owner=a nonce=9 ttl=500
> refused: the lock jobs is held by a with token 4; try again in 400 ms
unlock jobs owner=a token=4
> released
show-lock jobs
> held by b with token 5 until 1600; c waits
# What was released is not held; a token of another is none.
unlock jobs owner=a token=4
> refused: this owner does not hold the lock jobs with token 4, which is held by b with token 5
renew-lock jobs owner=a token=5 ttl=500
> refused: this owner does not hold the lock jobs with token 5, which is held by b with token 5
# The client of b's request is gone, and a later one of the same stands behind it.
lock jobs owner=b nonce=2 attempt=2 ttl=600
> refused: the nonce stands for an acquisition of the lock jobs with other terms: its ttl_ms, lock_delay_ms, permits and shared are to be the same
lock jobs owner=b nonce=2 attempt=2 ttl=500
> held with token 5 until 1600
withdraw-lock jobs nonce=2
> nothing was withdrawn
show-lock jobs
> held by b with token 5 until 1600; c waits
withdraw-lock jobs nonce=2 attempt=2
> withdrawn
show-lock jobs
> held by c with token 6 until 1600; nobody waits
# A holder that runs out makes way at that time.
show-deadline
> 1600
time 1600 1600
withdraw-lock none
> nothing was withdrawn
show-lock jobs
> the lock jobs is free
