# Three callers begin the same key: one receives the claim, the others wait or get its result.
found c1
> founded
time 0 1000
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11001, the key until 61001
begin pay for=order-1 nonce=b
> in progress, attempt 1 until 11001
begin pay for=order-1
> in progress, attempt 1 until 11001
# The reply was lost. The first caller retries and gets the same response.
begin pay for=order-1 nonce=a
> first, attempt 1, claim 4 until 11001, the key until 61001
# Another fingerprint under this key is refused.
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
# The result never changes. Completing the key again with the same result is accepted.
complete pay claim=4 result=paid
> completed
complete pay claim=4 result=paid-twice
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
abandon pay claim=4
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
show-key pay
> attempt 1, until 61001, result paid
# A completed key expires at its time.
restart
time 0 61000
begin pay for=order-1
> done in attempt 1
time 0 61001
begin pay for=order-2 nonce=c
> first, attempt 1, claim 5 until 71002, the key until 121002
