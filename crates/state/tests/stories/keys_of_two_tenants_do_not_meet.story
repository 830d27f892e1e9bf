# The same key with two access tokens, without a token, and as a user's key.
found c1
> founded
begin k access=1
> first, attempt 1, claim 4 until 10001, the key until 60001
begin k access=2
> first, attempt 1, claim 5 until 10001, the key until 60001
begin k access=0
> first, attempt 1, claim 6 until 10001, the key until 60001
begin k
> first, attempt 1, claim 7 until 10001, the key until 60001
complete k claim=4 access=1 result=one
> completed
begin k access=1
> done in attempt 1
begin k access=2
> in progress, attempt 1 until 10001
show-key k
> attempt 1, until 60001, result none
# A refused request leaves no record: the corrected request can use the same key.
begin other access=1 for=wrong
> first, attempt 1, claim 8 until 10001, the key until 60001
abandon other access=1 claim=8
> attempt 1 is abandoned
begin other access=1 for=right
> first, attempt 1, claim 9 until 10001, the key until 60001
