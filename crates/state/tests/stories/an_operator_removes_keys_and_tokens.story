# An operator frees space: a removed key is unknown, its claim is lost, and a repeated name counts
# once.
found c1
> founded
time 0 1000
begin pay nonce=a
> first, attempt 1, claim 4 until 11001, the key until 61001
begin ship nonce=a
> first, attempt 1, claim 5 until 11001, the key until 61001
remove-keys pay pay nobody
> 1 removed
show-key pay
> no key pay
complete pay claim=4 result=late
> refused: the key pay does not have this claim: another caller took over the key, the key was completed or expired, or the claim is wrong
begin pay nonce=b
> first, attempt 1, claim 6 until 11001, the key until 61001
# A request's key with the same name is another key.
remove-keys ship access=7
> 0 removed
complete ship claim=5 result=sent
> completed
issue 7 8 ttl=5000
> issued until 6001
remove-tokens 7 9
> 1 removed
consume 7
> unknown
restart
consume 8
> consumed
# The removed records leave no deadlines.
remove-keys pay ship
> 2 removed
remove-tokens 8
> 1 removed
show-deadline
> none
