# The layout twitter has five datacenter bits above five worker bits, and an epoch in 2010.
found c1
> founded
time 0 0
take twitter owner=a fence=478390626343 datacenter=1
> worker 32 of twitter, lease 4, ticks from 478390625343 to 478390626343
take twitter owner=a fence=478390626343 datacenter=1
> worker 33 of twitter, lease 5, ticks from 478390625343 to 478390626343
take twitter owner=a fence=478390626343 datacenter=31
> worker 992 of twitter, lease 6, ticks from 478390625343 to 478390626343
take twitter owner=a fence=478390626343
> worker 0 of twitter, lease 7, ticks from 478390625343 to 478390626343
take twitter owner=a fence=478390626343 datacenter=32
> refused: layout twitter has 32 datacenters, so there is no datacenter 32
take default owner=a fence=100 datacenter=0
> refused: layout default has 0 datacenters, so there is no datacenter 0
