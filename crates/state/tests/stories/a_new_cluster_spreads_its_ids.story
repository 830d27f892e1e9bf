found c1
> founded
membership 1
take js53 owner=a fence=10
> worker 0 of js53, lease 4, ticks from 0 to 10
raise 2 asked=1 ; raise 3 asked=1
> level 2
> level 3
show-first default
> Zero
raise 4 asked=1
> level 4
show-first default
> Spread
show-first js53
> Zero
restart
show-first default
> Spread
