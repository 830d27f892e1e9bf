# Window 30 s, skew 500 ms: the limit is 31 s and one tick ahead of the leader's clock.
found c1
> founded
time 1000 0
take default owner=a fence=32002
> refused: fence 32002 is above the limit 32001: the caller's clock runs ahead of the leader's
take default owner=a fence=32001
> worker 0 of default, lease 4, ticks from 1000 to 32001
extend default 0 lease=4 fence=32002
> refused: fence 32002 is above the limit 32001: the caller's clock runs ahead of the leader's
# A fence that leaves no tick to mint is refused: the caller's clock is behind.
take default owner=b fence=1000
> refused: fence 1000 leaves no tick to mint from 1000: the caller's clock is behind
take default owner=b fence=1001
> worker 1 of default, lease 5, ticks from 1000 to 1001
# A layout whose time field is full, and a layout that does not exist.
take uid-generator owner=a fence=5
> refused: the time field of layout uid-generator has been full since 1732137856000 ms; its IDs can only be decoded
take none owner=a fence=5
> refused: there is no layout none
# Long ticks: 10 ms each, with an epoch a year earlier.
take sonyflake owner=a fence=3153603202
> refused: fence 3153603202 is above the limit 3153603201: the caller's clock runs ahead of the leader's
take sonyflake owner=a fence=3153603201
> worker 0 of sonyflake, lease 6, ticks from 3153600100 to 3153603201
