# The wall clock jumps a year ahead and back; no key expires because of it.
found c1
> founded
time 0 0
begin pay ttl=5000 claim-ttl=1000
> first, attempt 1, claim 4 until 1001, the key until 5001
complete pay claim=4 result=paid
> completed
time 31536000000 10
begin pay
> done in attempt 1
time 0 5000
begin pay
> done in attempt 1
time 0 5001
begin pay
> first, attempt 1, claim 5 until 15002, the key until 65002
