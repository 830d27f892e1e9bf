# If a claim holder dies, the next caller takes over with the next attempt number.
found c1
> founded
time 0 0
begin pay nonce=a claim-ttl=5000
> first, attempt 1, claim 4 until 5001, the key until 60001
time 0 5000
begin pay nonce=b
> in progress, attempt 1 until 5001
time 0 5001
# The claim has expired: the next caller takes over, and the previous holder cannot complete the
# key.
begin pay nonce=b claim-ttl=5000
> first, attempt 2, claim 5 until 10002, the key until 65002
complete pay claim=4 result=late
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
time 0 6000
begin pay nonce=a
> in progress, attempt 2 until 10002
# An abandoned claim can be taken over at once.
abandon pay claim=5
> attempt 2 is abandoned
complete pay claim=5 result=late
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
begin pay nonce=c claim-ttl=1000
> first, attempt 3, claim 6 until 7001, the key until 66001
abandon pay claim=5
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
# An expired claim can complete the key as long as no other caller has taken over.
time 0 9000
complete pay claim=6 result=paid
> completed
show-key pay
> attempt 3, until 66001, result paid
# A key does not expire before its claim. A begin extends a key in progress, but not a completed
# key.
begin long ttl=1000 claim-ttl=20000
> first, attempt 1, claim 7 until 29001, the key until 29001
time 0 12000
begin long ttl=30000
> in progress, attempt 1 until 29001
complete long claim=7 result=x
> completed
time 0 42000
begin long ttl=90000
> done in attempt 1
time 0 42001
begin long ttl=90000
> first, attempt 1, claim 8 until 52002, the key until 132002
