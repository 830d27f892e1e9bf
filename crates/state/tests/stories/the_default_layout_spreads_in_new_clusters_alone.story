# A cluster that has made IDs keeps what it has.
found c1
> founded
membership 1
take default owner=a fence=10
> worker 0 of default, lease 4, ticks from 0 to 10
raise 2 asked=1 ; raise 3 asked=1 ; raise 4 asked=1
> level 2
> level 3
> level 4
show-first default
> Zero
restore c2
> restored, node 5
show-first default
> Zero
