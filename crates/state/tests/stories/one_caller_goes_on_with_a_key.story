# Three callers begin the same key: one goes on, the others wait or get its result.
found c1
> founded
time 0 1000
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11001, the key until 61001
begin pay for=order-1 nonce=b
> in progress, attempt 1 until 11001
begin pay for=order-1
> in progress, attempt 1 until 11001
# The first repeats its request, as its reply was lost: it is told the same again.
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11001, the key until 61001
# What it would do under this key is something else.
begin pay for=order-2 nonce=c
> another thing is done under this key
time 0 2000
complete pay claim=3 result=late
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
complete pay claim=4 result=paid
> completed
begin pay for=order-1 nonce=b
> done in attempt 1
begin pay for=order-2 nonce=b
> another thing is done under this key
show-key pay
> attempt 1, until 61001, result paid
# The result stays what it is. Completing it with the same again is no other thing.
complete pay claim=4 result=paid
> completed
complete pay claim=4 result=paid-twice
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
abandon pay claim=4
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
show-key pay
> attempt 1, until 61001, result paid
# A done key ends when it was to end.
restart
time 0 61000
begin pay for=order-1
> done in attempt 1
time 0 61001
begin pay for=order-2 nonce=c
> first, attempt 1, claim 5 until 71002, the key until 121002
