# One caller consumes the token. A retry of its request gets the same response.
found c1
> founded
time 0 0
issue 7 8 9 ttl=5000
> issued until 5001
consume 7 nonce=a
> consumed
consume 7 nonce=b
> another request consumed it
consume 7 nonce=a
> consumed
consume 7
> another request consumed it
# Without a nonce, a retry cannot be recognised as the first request.
consume 8
> consumed
consume 8
> another request consumed it
# An ID without its secret is no token, and no token is issued twice.
consume 9 secret=7
> unknown
issue 10 9 ttl=5000
> refused: one-time token 9 already exists
consume 10
> unknown
issue 11 11 ttl=5000
> refused: one-time token 11 already exists
restart
time 31536000000 4999
consume 7 nonce=a
> consumed
consume 9
> consumed
time 0 5001
consume 7 nonce=a
> unknown
show-deadline
> none
