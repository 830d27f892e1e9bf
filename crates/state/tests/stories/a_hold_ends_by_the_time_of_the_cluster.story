found c1
> founded
time 1000 1000
lock jobs owner=a nonce=1 ttl=500 delay=300
> held with token 4 until 1501
# A wall clock that jumps does not end a hold.
time 900000 1200
renew-lock jobs owner=a token=4 ttl=500
> renewed until 1701
# A renewal with a shorter ttl does not shorten the hold.
renew-lock jobs owner=a token=4 ttl=100
> renewed until 1701
renew-lock jobs owner=a token=4 ttl=800
> renewed until 2001
time 5 2000
withdraw-lock none
> nothing was withdrawn
show-lock jobs
> held by a with token 4 until 2001; nobody waits
time 5 2001
withdraw-lock none
> nothing was withdrawn
show-lock jobs
> held by nobody; nobody waits; nobody until 2301
renew-lock jobs owner=a token=4 ttl=500
> refused: no hold of the lock jobs has this lease: the hold ended, or the lease is wrong
# An expired hold is followed by a delay; a released hold is not.
lock jobs owner=b nonce=2
> refused: the lock jobs is in its lock delay after an expired hold; try again in 300 ms
lock jobs owner=b nonce=2 wait=1000
> waiting behind 0 until 3001
show-deadline
> 2301
restart
time 6 2301
withdraw-lock none
> nothing was withdrawn
show-lock jobs
> held by b with token 5 until 3302; nobody waits
unlock jobs owner=b token=5
> released
show-lock jobs
> the lock jobs is free
show-deadline
> none
