found c1
> founded
time 1000 1000
lock jobs owner=a nonce=1 ttl=500
> held with token 4 until 1501
lock jobs owner=b nonce=2 ttl=500
> refused: the lock jobs is held by a with token 4; try again in 501 ms
lock jobs owner=b nonce=2 ttl=500 wait=5000 ; lock jobs owner=c nonce=3 ttl=500 wait=5000
> waiting behind 0 until 6000
> waiting behind 1 until 6000
# A retry keeps its place and waits longer.
time 1100 1100
lock jobs owner=b nonce=2 ttl=500 wait=5000
> waiting behind 0 until 6100
show-lock jobs
> held by a with token 4 until 1501; b, then c waits
# Without its lease, the owner waits like any other client.
lock jobs owner=a nonce=9 ttl=500
> refused: the lock jobs is held by a with token 4; try again in 401 ms
unlock jobs owner=a token=4
> released
show-lock jobs
> held by b with token 5 until 1601; c waits
# A released hold can be neither released nor renewed again.
unlock jobs owner=a token=4
> refused: no hold of the lock jobs has this lease: the hold ended, or the lease is wrong
renew-lock jobs token=4 ttl=500
> refused: no hold of the lock jobs has this lease: the hold ended, or the lease is wrong
# The client of b's first request disconnects, but a retry belongs to the same claim and keeps it.
lock jobs owner=b nonce=2 attempt=2 ttl=600
> refused: the nonce belongs to an acquisition of the lock jobs with other terms: ttl_ms, lock_delay_ms, permits and shared must be the same
lock jobs owner=b nonce=2 attempt=2 ttl=500
> held with token 5 until 1601
withdraw-lock jobs nonce=2
> nothing was withdrawn
show-lock jobs
> held by b with token 5 until 1601; c waits
withdraw-lock jobs nonce=2 attempt=2
> withdrawn
show-lock jobs
> held by c with token 6 until 1601; nobody waits
# An expired hold ends at its time.
show-deadline
> 1601
time 1600 1601
withdraw-lock none
> nothing was withdrawn
show-lock jobs
> the lock jobs is free
