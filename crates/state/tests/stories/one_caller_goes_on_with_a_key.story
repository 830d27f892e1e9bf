# Three callers begin the same key: one goes on, the others wait or get its result.
found c1
> founded
time 0 1000
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11000, the key until 61000
begin pay for=order-1 nonce=b
> in progress, attempt 1 until 11000
begin pay for=order-1
> in progress, attempt 1 until 11000
# The first repeats its request, as its reply was lost: it is told the same again.
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11000, the key until 61000
# What it would do under this key is something else.
begin pay for=order-2 nonce=c
> another thing is done under this key
time 0 2000
complete pay claim=3 result=late
> refused: claim 3 of the key pay is lost: another caller was told to go on, the key is completed, or it is over
complete pay claim=4 result=paid
> completed
begin pay for=order-1 nonce=b
> done in attempt 1
begin pay for=order-2 nonce=b
> another thing is done under this key
show-key pay
> attempt 1, until 61000, result paid
# The result stays what it is. Completing it with the same again is no other thing.
complete pay claim=4 result=paid
> completed
complete pay claim=4 result=paid-twice
> refused: claim 4 of the key pay is lost: another caller was told to go on, the key is completed, or it is over
abandon pay claim=4
> refused: claim 4 of the key pay is lost: another caller was told to go on, the key is completed, or it is over
show-key pay
> attempt 1, until 61000, result paid
# A done key ends when it was to end.
restart
time 0 60999
begin pay for=order-1
> done in attempt 1
time 0 61000
begin pay for=order-2 nonce=c
> first, attempt 1, claim 5 until 71000, the key until 121000
